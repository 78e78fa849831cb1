! Adds one number per rank on all ranks, and shows how a wrong call is refused. Start it once per rank:
!
!   torchrun --no-python --nproc_per_node 2 build/examples/fortran/all_reduce
program all_reduce
  use floe
  implicit none
  type(c_ptr) :: context, comm
  type(floe_comm_config_t) :: config
  type(floe_comm_info_t) :: info
  type(c_ptr) :: in_place
  integer(c_int32_t), target :: total
  integer(c_int) :: status
  character(40) :: who

  config%timeout_ms = 10000 ! of the creation and of each operation
  call check(floe_context_create(c_null_ptr, context))
  call check(floe_comm_create_from_env(context, config, comm))
  call check(floe_comm_info(comm, info))
  write (who, '(a, i0, a, i0)') 'rank ', info%rank, ' of ', info%size
  in_place = transfer(floe_in_place_address, in_place)
  total = info%rank + 1

  ! Nothing has been sent: the communicator stays usable.
  status = floe_all_reduce(comm, in_place, c_loc(total), 1_c_int64_t, FLOE_INT32, FLOE_AVG, c_null_ptr)
  print '(3a)', trim(who), ': refused with ', floe_error_text(status)

  call check(floe_all_reduce(comm, in_place, c_loc(total), 1_c_int64_t, FLOE_INT32, FLOE_SUM, c_null_ptr))
  print '(2a, i0, a, i0)', trim(who), ': 1 + ... + ', info%size, ' = ', total

  call check(floe_comm_destroy(comm))
  call check(floe_context_destroy(context))

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == FLOE_OK) return
    print '(a)', floe_error_text(status)
    error stop
  end subroutine
end program
