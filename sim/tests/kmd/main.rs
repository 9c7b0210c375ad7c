//! The driver's rules, from the client's side of the seam: raw ioctls against a GPU that follows a script.

mod client;
mod errno;
mod fences;
mod fuzz;
mod handles;
mod lifetime;
mod mali;
mod memory;
mod sched;
mod script;
