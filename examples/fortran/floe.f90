! The part of floe/floe.h that all_reduce.f90 uses, under its C names. Copy it and add what you need.
! Fortran has no unsigned integers: C's uint32_t and uint64_t are the integers of the same size.
module floe
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int), parameter :: FLOE_OK = 0, FLOE_INT32 = 6, FLOE_SUM = 0, FLOE_AVG = 1
  ! FLOE_IN_PLACE: transfer(floe_in_place_address, c_null_ptr)
  integer(c_intptr_t), parameter :: floe_in_place_address = -1

  type, bind(c) :: floe_comm_config_t
    integer(c_int32_t) :: struct_size = 32
    integer(c_int32_t) :: rank = 0
    integer(c_int32_t) :: size = 1
    integer(c_int32_t) :: reserved = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int64_t) :: timeout_ms = 0
  end type

  type, bind(c) :: floe_comm_info_t
    integer(c_int32_t) :: struct_size = 32
    integer(c_int32_t) :: rank = 0
    integer(c_int32_t) :: size = 0
    integer(c_int32_t) :: local_rank = 0
    integer(c_int32_t) :: local_size = 0
    integer(c_int32_t) :: direct = 0
    integer(c_int64_t) :: timeout_ms = 0
  end type

  interface
    type(c_ptr) function floe_status_string(status) bind(c)
      import :: c_int, c_ptr
      integer(c_int), value :: status
    end function

    type(c_ptr) function floe_last_error() bind(c)
      import :: c_ptr
    end function

    ! config: the address of a floe_context_config_t, or c_null_ptr
    integer(c_int) function floe_context_create(config, context) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: config
      type(c_ptr), intent(out) :: context
    end function

    integer(c_int) function floe_context_destroy(context) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: context
    end function

    integer(c_int) function floe_comm_create_from_env(context, config, comm) bind(c)
      import :: c_int, c_ptr, floe_comm_config_t
      type(c_ptr), value :: context
      type(floe_comm_config_t), intent(in) :: config
      type(c_ptr), intent(out) :: comm
    end function

    integer(c_int) function floe_comm_destroy(comm) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: comm
    end function

    integer(c_int) function floe_comm_info(comm, info) bind(c)
      import :: c_int, c_ptr, floe_comm_info_t
      type(c_ptr), value :: comm
      type(floe_comm_info_t), intent(in out) :: info
    end function

    ! req: the address of a c_ptr for an asynchronous operation, or c_null_ptr
    integer(c_int) function floe_all_reduce(comm, send, recv, count, datatype, op, req) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: comm, send, recv, req
      integer(c_int64_t), value :: count
      integer(c_int), value :: datatype, op
    end function

    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! "FLOE_ERR_PEER: ...": a status and what floe says about this thread's last failed call.
  function floe_error_text(status) result(text)
    integer(c_int), intent(in) :: status
    character(:), allocatable :: text
    text = c_text(floe_status_string(status))//': '//c_text(floe_last_error())
  end function

  function c_text(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)
    integer :: i
    call c_f_pointer(address, bytes, [c_strlen(address)])
    allocate (character(size(bytes)) :: text)
    do i = 1, size(bytes)
      text(i:i) = bytes(i)
    end do
  end function
end module
