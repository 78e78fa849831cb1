//! Adds one number per rank on all ranks, and shows how a wrong call is refused. Start it once per rank:
//!
//!   torchrun --no-python --nproc_per_node 2 build/examples/rust/all_reduce
mod floe;
use floe::*;
use std::os::raw::c_void;
use std::ptr::null_mut;

/// The communicator is destroyed before its context.
struct Rank {
    comm: *mut c_void,
    context: *mut c_void,
}

impl Rank {
    fn from_env() -> Result<Rank, String> {
        let mut rank = Rank { comm: null_mut(), context: null_mut() };
        let config = floe_comm_config_t { timeout_ms: 10000, ..Default::default() }; // of the creation and of each operation
        unsafe {
            check(floe_context_create(std::ptr::null(), &mut rank.context))?;
            check(floe_comm_create_from_env(rank.context, &config, &mut rank.comm))?;
        }
        Ok(rank)
    }

    fn info(&self) -> Result<floe_comm_info_t, String> {
        let mut info = floe_comm_info_t::default();
        check(unsafe { floe_comm_info(self.comm, &mut info) })?;
        Ok(info)
    }

    fn all_reduce(&self, value: &mut i32, op: i32) -> Result<(), String> {
        let recv = value as *mut i32 as *mut c_void;
        check(unsafe { floe_all_reduce(self.comm, FLOE_IN_PLACE, recv, 1, FLOE_INT32, op, null_mut()) })
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        unsafe {
            if !self.comm.is_null() {
                floe_comm_destroy(self.comm);
            }
            if !self.context.is_null() {
                floe_context_destroy(self.context);
            }
        }
    }
}

fn main() -> Result<(), String> {
    let rank = Rank::from_env()?;
    let info = rank.info()?;
    let mut sum = info.rank as i32 + 1;
    let who = format!("rank {} of {}", info.rank, info.size);

    // Nothing has been sent: the communicator stays usable.
    if let Err(message) = rank.all_reduce(&mut sum, FLOE_AVG) {
        println!("{who}: refused with {message}");
    }

    rank.all_reduce(&mut sum, FLOE_SUM)?;
    println!("{who}: 1 + ... + {} = {sum}", info.size);
    Ok(())
}
