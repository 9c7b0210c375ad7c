//! What the kernel's headers say, spelt as they spell it: structs, request numbers, flags.
//!
//! Source: Linux `include/uapi/drm/panthor_drm.h` (1.0 of 6.12 to 1.9 of 7.3), `include/uapi/drm/drm.h`,
//! `include/uapi/linux/sync_file.h`. The test `layout` compares every size, offset and number with those headers.

#![allow(non_camel_case_types)]

pub mod drm;
pub mod layout;
pub mod panthor;
pub mod sync_file;

/// Defines kernel structs with the derives that all of them share, and their [`layout::Layout`].
macro_rules! kernel_structs {
    ($( $(#[$meta:meta])* pub struct $name:ident { $( $(#[$fmeta:meta])* pub $field:ident : $type:ty, )* } )*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
            pub struct $name { $( $(#[$fmeta])* pub $field: $type, )* }

            impl $crate::sys::layout::Layout for $name {
                const LAYOUT: $crate::sys::layout::Struct = $crate::sys::layout::Struct {
                    name: stringify!($name),
                    size: size_of::<$name>(),
                    fields: &[ $( $crate::sys::layout::Field {
                        name: stringify!($field),
                        offset: std::mem::offset_of!($name, $field),
                        size: size_of::<$type>(),
                    }, )* ],
                };
            }
        )*

        /// The layouts of this file's structs.
        pub const STRUCTS: &[$crate::sys::layout::Struct] =
            &[ $( <$name as $crate::sys::layout::Layout>::LAYOUT, )* ];
    };
}

/// Defines request numbers and the table of them.
macro_rules! requests {
    ($( $(#[$meta:meta])* $name:ident = $make:ident::<$type:ty>($group:expr, $nr:expr); )*) => {
        $(
            $(#[$meta])*
            pub const $name: u32 = rustix::ioctl::opcode::$make::<$type>($group, $nr) as u32;
        )*

        /// The request numbers of this file.
        pub const REQUESTS: &[$crate::sys::layout::Constant] =
            &[ $( $crate::sys::layout::Constant { name: stringify!($name), value: $name as u64 }, )* ];
    };
}

use kernel_structs;
use requests;

/// The size in bytes of the struct that a request number carries (`_IOC_SIZE`, asm-generic encoding).
pub const fn request_size(request: u32) -> usize {
    ((request >> 16) & 0x3fff) as usize
}

/// Whether the kernel writes the request's struct back (`_IOC_READ`, asm-generic encoding).
pub const fn request_writes_back(request: u32) -> bool {
    request >> 30 & 2 != 0
}

/// The name of a request number, for messages: `"DRM_IOCTL_PANTHOR_VM_BIND"`; `None` for one that is not listed here.
pub fn request_name(request: u32) -> Option<&'static str> {
    let tables = [panthor::REQUESTS, drm::REQUESTS, sync_file::REQUESTS];
    tables
        .into_iter()
        .flatten()
        .find(|known| known.value == u64::from(request))
        .map(|known| known.name)
}
