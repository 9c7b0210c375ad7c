//! The Linux panthor driver's ABI: structs, ioctls, the transport seam and safe handles.
