//! Spoiling a call that was right.

use std::mem::offset_of;

use panthor_uapi::sys::panthor::*;

use super::super::normalise::descriptor_field;
use super::super::{Arg, Buffer, Call, StepId, Value};
use super::Generator;
use super::state::Handle;

/// Addresses that nobody may use: the first page, the middle of nowhere, the kernel's half.
const BAD: [u64; 4] = [0x10, 0x10_0000_0000_0000, 1 << 63, u64::MAX - 7];

/// Words that are right somewhere else.
const WORDS: [u32; 20] = [
    0,
    1,
    2,
    3,
    4,
    5,
    8,
    16,
    24,
    32,
    64,
    255,
    4095,
    4096,
    4097,
    1 << 20,
    1 << 28,
    i32::MAX as u32,
    1 << 31,
    u32::MAX,
];

/// Bytes of a sync operation, and the byte in it with the bit SIGNAL.
const SYNC_OP: usize = size_of::<drm_panthor_sync_op>();

/// Whether `at` of a buffer of sync operations lies in a signal operation's handle or in a byte that could make a wait one.
/// A signal operation with a handle that is none makes the kernel dereference NULL
/// (`panthor_submit_ctx_add_sync_signal`).
fn signals(request: u32, which: usize, at: usize, buffer: &Buffer) -> bool {
    let jobs = [DRM_IOCTL_PANTHOR_GROUP_SUBMIT, DRM_IOCTL_PANTHOR_VM_BIND];
    if which < 2 || !jobs.contains(&request) {
        return false;
    }
    let op = at / SYNC_OP * SYNC_OP;
    let signal = buffer
        .bytes
        .get(op + 3)
        .is_some_and(|byte| byte & 0x80 != 0);
    match at - op {
        0..4 => !signal,
        4..8 => signal,
        _ => false,
    }
}

/// Words that stay: with another size the device would run out of memory instead of an argument being checked.
fn protected(request: u32, which: usize, at: usize) -> bool {
    match request {
        DRM_IOCTL_PANTHOR_BO_CREATE => {
            at & !7 == offset_of!(drm_panthor_bo_create, size) && which == 0
        }
        // The upper half: a sparse mapping of terabytes is mostly page tables.
        DRM_IOCTL_PANTHOR_VM_BIND => {
            which == 1
                && at % size_of::<drm_panthor_vm_bind_op>()
                    == offset_of!(drm_panthor_vm_bind_op, size) + 4
        }
        DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE => {
            at == offset_of!(drm_panthor_tiler_heap_create, max_chunks)
        }
        _ => false,
    }
}

/// Linux 7.2 and 7.3 do not survive a map of nothing that is queued (`panthor_vm_bind_prepare_op_ctx` lets it through):
/// no bind becomes one of size 0, nor one of those with size 0 asynchronous.
fn tamed(request: u32, which: usize, at: usize, number: u32) -> u32 {
    if request != DRM_IOCTL_PANTHOR_VM_BIND {
        return number;
    }
    let size = offset_of!(drm_panthor_vm_bind_op, size);
    match which {
        0 if at == offset_of!(drm_panthor_vm_bind, flags) => number & !1,
        1 if at % size_of::<drm_panthor_vm_bind_op>() == size => number | 4096,
        _ => number,
    }
}

/// Whether a buffer names a descriptor: what the kernel would take for one in its place is one of the process's own.
fn names_fd(buffers: &[Buffer]) -> bool {
    let mut values = buffers.iter().flat_map(|buffer| &buffer.values);
    values.any(|placed| matches!(placed.value, Value::Fd(_)))
}

/// Whether half of the struct would ask for gigabytes: a size whose upper half is cut off.
fn sized(request: u32) -> bool {
    request == DRM_IOCTL_PANTHOR_BO_CREATE
}

impl Generator {
    /// The call, with one thing changed.
    pub(super) fn spoilt(
        &mut self,
        fd: StepId,
        mut request: u32,
        mut buffers: Vec<Buffer>,
    ) -> StepId {
        let mut arg = Arg::Buffer;
        match self.rng.below(20) {
            0 => arg = Arg::Bad(self.rng.pick(&BAD)),
            1 if descriptor_field(request).is_none() && !names_fd(&buffers) && !sized(request) => {
                request = self.resized(request, &mut buffers)
            }
            2..=3 if buffers.len() > 1 => self.bad_pointer(request, &mut buffers),
            4 if buffers.len() > 1 => {
                // Shorter than what the call says: the rest is a hole.
                let last = buffers.len() - 1;
                let keep = (buffers[last].bytes.len() / 2) & !7;
                buffers[last].bytes.truncate(keep);
                buffers[last]
                    .values
                    .retain(|placed| placed.at + placed.width <= keep);
            }
            5..=8 => self.other_handle(request, &mut buffers),
            9..=13 if buffers.len() > 1 => {
                let which = 1 + self.rng.below(buffers.len() as u64 - 1) as usize;
                self.other_word(request, which, &mut buffers[which]);
            }
            _ => self.other_word(request, 0, &mut buffers[0]),
        }
        self.step(Call::Ioctl {
            fd,
            request,
            arg,
            buffers,
        })
    }

    /// Another size in the request's number: shorter or longer by words.
    fn resized(&mut self, request: u32, buffers: &mut [Buffer]) -> u32 {
        let size = request >> 16 & 0x3fff;
        let other = self
            .rng
            .pick(&[0, 4, 8, (size / 2) & !3, size + 8, size + 16, size + 256]);
        if let Some(head) = buffers.first_mut() {
            let room = head.bytes.len().max(other as usize);
            head.bytes.resize(room, u8::from(self.rng.percent(30)));
        }
        request & !(0x3fff << 16) | other << 16
    }

    fn bad_pointer(&mut self, request: u32, buffers: &mut [Buffer]) {
        let mut pointers = Vec::new();
        for (which, buffer) in buffers.iter().enumerate() {
            for (at, placed) in buffer.values.iter().enumerate() {
                if matches!(placed.value, Value::Pointer(_)) {
                    pointers.push((which, at));
                }
            }
        }
        if let Some(choice) = self.rng.index(pointers.len()) {
            let (which, at) = pointers[choice];
            let bad = match self.rng.percent(30) {
                true => 0,
                // User Mode Linux' `strnlen_user` gives -EFAULT for the kernel's half, which `strndup_user` takes for a
                // length: ENOMEM instead of EFAULT.
                false if request == DRM_IOCTL_PANTHOR_BO_SET_LABEL => BAD[0],
                false => self.rng.pick(&BAD),
            };
            buffers[which].values[at].value = Value::Number(bad);
        }
    }

    /// A handle that is dead, of another kind, of another file, or no handle at all.
    fn other_handle(&mut self, request: u32, buffers: &mut [Buffer]) {
        let mut places = Vec::new();
        for (which, buffer) in buffers.iter().enumerate() {
            for (at, placed) in buffer.values.iter().enumerate() {
                if matches!(placed.value, Value::Output { .. })
                    && placed.width == 4
                    && !signals(request, which, placed.at, buffer)
                {
                    places.push((which, at));
                }
            }
        }
        let Some(choice) = self.rng.index(places.len()) else {
            let which = self.rng.below(buffers.len() as u64) as usize;
            return self.other_word(request, which, &mut buffers[which]);
        };
        let (which, at) = places[choice];
        buffers[which].values[at].value = match self.any_handle() {
            Some(handle) if self.rng.percent(60) => handle.value(),
            _ => Value::Number(u64::from(self.rng.pick(&[
                0,
                1,
                2,
                3,
                7,
                99,
                1 << 16,
                0x10001,
                u32::MAX,
            ]))),
        };
    }

    fn any_handle(&mut self) -> Option<Handle> {
        let mut handles = Vec::new();
        for file in &self.files {
            handles.extend(&file.dead);
            handles.extend(file.vms.iter().map(|vm| vm.handle));
            handles.extend(file.bos.iter().map(|bo| bo.handle));
            handles.extend(file.groups.iter().map(|group| group.handle));
            handles.extend(file.syncobjs.iter().map(|syncobj| syncobj.handle));
            handles.extend(&file.heaps);
        }
        self.rng.index(handles.len()).map(|at| handles[at])
    }

    /// Another word somewhere.
    fn other_word(&mut self, request: u32, which: usize, buffer: &mut Buffer) {
        let Some(word) = self.rng.index(buffer.bytes.len() / 4) else {
            return;
        };
        let at = 4 * word;
        if protected(request, which, at) || signals(request, which, at, buffer) {
            return;
        }
        let number = match self.rng.below(3) {
            0 => {
                // One bit.
                let field: [u8; 4] = buffer.bytes[at..at + 4].try_into().unwrap_or_default();
                // Not one that makes a count of something between a megabyte and two gigabytes: whether there is so
                // much memory is another question.
                let bit = self
                    .rng
                    .pick(&[0, 1, 2, 3, 4, 5, 8, 12, 16, 28, 29, 30, 31]);
                u32::from_le_bytes(field) ^ 1 << bit
            }
            _ => self.rng.pick(&WORDS),
        };
        let number = tamed(request, which, at, number);
        // Half a pointer would lead anywhere, half a deadline to the end of time.
        let overlaps = |placed: &super::Placed| placed.at < at + 4 && at < placed.at + placed.width;
        if buffer
            .values
            .iter()
            .any(|placed| overlaps(placed) && placed.width == 8)
        {
            return;
        }
        // A small number in place of a descriptor may be one of the process's own.
        let descriptor = buffer
            .values
            .iter()
            .any(|placed| overlaps(placed) && matches!(placed.value, Value::Fd(_)));
        let number = if descriptor {
            self.rng.pick(&[1 << 20, i32::MAX as u32, u32::MAX])
        } else {
            number
        };
        buffer.values.retain(|placed| !overlaps(placed));
        buffer.bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
}
