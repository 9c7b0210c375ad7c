//! The way from the kernel to the model: lock-step requests over a Unix stream socket.
