//! The part of floe/floe.h that all_reduce.rs uses, under its C names. Copy it and add what you need.
#![allow(non_camel_case_types)]

use std::ffi::CStr;
use std::mem::size_of;
use std::os::raw::{c_char, c_int, c_void};

pub const FLOE_OK: c_int = 0;
pub const FLOE_INT32: c_int = 6;
pub const FLOE_SUM: c_int = 0;
pub const FLOE_AVG: c_int = 1;
pub const FLOE_IN_PLACE: *const c_void = -1isize as *const c_void;

#[repr(C)]
pub struct floe_comm_config_t {
    pub struct_size: u32,
    pub rank: u32,
    pub size: u32,
    pub reserved: u32,
    pub name: *const c_char,
    pub timeout_ms: u64,
}

/// FLOE_COMM_CONFIG_INIT
impl Default for floe_comm_config_t {
    fn default() -> Self {
        let struct_size = size_of::<Self>() as u32;
        Self { struct_size, rank: 0, size: 1, reserved: 0, name: std::ptr::null(), timeout_ms: 0 }
    }
}

#[repr(C)]
pub struct floe_comm_info_t {
    pub struct_size: u32,
    pub rank: u32,
    pub size: u32,
    pub local_rank: u32,
    pub local_size: u32,
    pub direct: u32,
    pub timeout_ms: u64,
}

/// FLOE_COMM_INFO_INIT
impl Default for floe_comm_info_t {
    fn default() -> Self {
        let struct_size = size_of::<Self>() as u32;
        Self { struct_size, rank: 0, size: 0, local_rank: 0, local_size: 0, direct: 0, timeout_ms: 0 }
    }
}

#[link(name = "floe")]
extern "C" {
    fn floe_status_string(status: c_int) -> *const c_char;
    fn floe_last_error() -> *const c_char;
    pub fn floe_context_create(config: *const c_void, context: *mut *mut c_void) -> c_int;
    pub fn floe_context_destroy(context: *mut c_void) -> c_int;
    pub fn floe_comm_create_from_env(
        context: *mut c_void,
        config: *const floe_comm_config_t,
        comm: *mut *mut c_void,
    ) -> c_int;
    pub fn floe_comm_destroy(comm: *mut c_void) -> c_int;
    pub fn floe_comm_info(comm: *const c_void, info: *mut floe_comm_info_t) -> c_int;
    pub fn floe_all_reduce(
        comm: *mut c_void,
        send: *const c_void,
        recv: *mut c_void,
        count: u64,
        datatype: c_int,
        op: c_int,
        req: *mut *mut c_void,
    ) -> c_int;
}

/// A call's status: Err has the status's name and what floe says about it.
pub fn check(status: c_int) -> Result<(), String> {
    if status == FLOE_OK {
        return Ok(());
    }
    // Both are strings of floe's, valid until this thread's next failing call.
    let text = |s: *const c_char| unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned();
    let (name, message) = unsafe { (floe_status_string(status), floe_last_error()) };
    Err(format!("{}: {}", text(name), text(message)))
}
