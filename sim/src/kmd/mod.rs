//! The panthor driver's rules behind `panthor_uapi::Transport`.
