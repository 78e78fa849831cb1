//! What floe.rs takes floe.h to be, for layout.sh.
#[allow(dead_code)]
mod floe;
use floe::*;
use std::mem::size_of_val;

/// The pattern with all fields does not compile when one is forgotten.
macro_rules! layout {
    ($name:ident { $($field:ident),+ }) => {
        let value = $name::default();
        let start = &value as *const $name as usize;
        let $name { $($field),+ } = &value;
        println!("sizeof({}) >= {}", stringify!($name), size_of_val(&value));
        $(
            let place = concat!(stringify!($name), ", ", stringify!($field));
            println!("offsetof({place}) == {}", $field as *const _ as usize - start);
            println!("SIZE({place}) == {}", size_of_val($field));
        )+
    };
}

fn main() {
    layout!(floe_comm_config_t { struct_size, rank, size, reserved, name, timeout_ms });
    layout!(floe_comm_info_t { struct_size, rank, size, local_rank, local_size, direct, timeout_ms });
    println!("FLOE_OK == {FLOE_OK}");
    println!("FLOE_INT32 == {FLOE_INT32}");
    println!("FLOE_SUM == {FLOE_SUM}");
    println!("FLOE_AVG == {FLOE_AVG}");
}
