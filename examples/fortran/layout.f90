! What floe.f90 takes floe.h to be, for layout.sh.
program layout
  use floe
  implicit none
  type(floe_comm_config_t), target :: config
  type(floe_comm_info_t), target :: info
  integer(c_intptr_t) :: start
  integer(c_size_t) :: fields

  call struct(c_loc(config))
  call field('floe_comm_config_t, struct_size', c_loc(config%struct_size), c_sizeof(config%struct_size))
  call field('floe_comm_config_t, rank', c_loc(config%rank), c_sizeof(config%rank))
  call field('floe_comm_config_t, size', c_loc(config%size), c_sizeof(config%size))
  call field('floe_comm_config_t, reserved', c_loc(config%reserved), c_sizeof(config%reserved))
  call field('floe_comm_config_t, name', c_loc(config%name), c_sizeof(config%name))
  call field('floe_comm_config_t, timeout_ms', c_loc(config%timeout_ms), c_sizeof(config%timeout_ms))
  call struct_end('floe_comm_config_t', c_sizeof(config), config%struct_size)

  call struct(c_loc(info))
  call field('floe_comm_info_t, struct_size', c_loc(info%struct_size), c_sizeof(info%struct_size))
  call field('floe_comm_info_t, rank', c_loc(info%rank), c_sizeof(info%rank))
  call field('floe_comm_info_t, size', c_loc(info%size), c_sizeof(info%size))
  call field('floe_comm_info_t, local_rank', c_loc(info%local_rank), c_sizeof(info%local_rank))
  call field('floe_comm_info_t, local_size', c_loc(info%local_size), c_sizeof(info%local_size))
  call field('floe_comm_info_t, direct', c_loc(info%direct), c_sizeof(info%direct))
  call field('floe_comm_info_t, timeout_ms', c_loc(info%timeout_ms), c_sizeof(info%timeout_ms))
  call struct_end('floe_comm_info_t', c_sizeof(info), info%struct_size)

  print '(a, i0)', 'FLOE_OK == ', FLOE_OK
  print '(a, i0)', 'FLOE_INT32 == ', FLOE_INT32
  print '(a, i0)', 'FLOE_SUM == ', FLOE_SUM
  print '(a, i0)', 'FLOE_AVG == ', FLOE_AVG

contains

  integer(c_intptr_t) function address(pointer)
    type(c_ptr), intent(in) :: pointer
    address = transfer(pointer, address)
  end function

  subroutine struct(address_of_it)
    type(c_ptr), intent(in) :: address_of_it
    start = address(address_of_it)
    fields = 0
  end subroutine

  subroutine field(place, pointer, bytes)
    character(*), intent(in) :: place
    type(c_ptr), intent(in) :: pointer
    integer(c_size_t), intent(in) :: bytes
    print '(3a, i0)', 'offsetof(', place, ') == ', address(pointer) - start
    print '(3a, i0)', 'SIZE(', place, ') == ', bytes
    fields = fields + bytes
  end subroutine

  ! No field was forgotten, and struct_size, a literal there, is the size.
  subroutine struct_end(name, bytes, struct_size)
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: bytes
    integer(c_int32_t), intent(in) :: struct_size
    print '(3a, i0)', 'sizeof(', name, ') >= ', bytes
    print '(i0, a, i0)', fields, ' == ', bytes
    print '(i0, a, i0)', struct_size, ' == ', bytes
  end subroutine
end program
