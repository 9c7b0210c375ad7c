//! What a submission finds in memory, for those who take it elsewhere.

use panthor_uapi::VmBindOpFlags;
use panthor_watchdog::GpuAddress;

use crate::memory::Buffer;

/// A buffer as it was.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What it is for.
    pub what: String,
    /// Its first byte for the GPU.
    pub va: GpuAddress,
    /// Its flags in the VM.
    pub flags: VmBindOpFlags,
    /// Everything that is mapped.
    pub bytes: Vec<u8>,
}

/// One submission: what its streams find in memory, and in the end the result.
#[derive(Debug, Clone)]
pub struct Recording {
    /// All buffers of the submission.
    pub buffers: Vec<Recorded>,
    /// Address and bytes of its streams, in order, all on queue 0.
    pub streams: Vec<(GpuAddress, u32)>,
    /// Address and bytes of the last product's result, where this is the submission that completed it.
    pub output: Option<(GpuAddress, Vec<u8>)>,
}

impl Recording {
    /// Copies the buffers as the CPU sees them. Whoever wrote them has published them; what the GPU writes only is not
    /// fetched, since a submission does not read what it did not write.
    pub(super) fn new<'a>(
        buffers: impl Iterator<Item = &'a Buffer>,
        streams: impl Iterator<Item = (GpuAddress, u32)>,
    ) -> Self {
        let copy = |buffer: &Buffer| {
            let mut bytes = vec![0; buffer.mapped_size() as usize];
            buffer.read(0, &mut bytes);
            Recorded {
                what: buffer.what().to_owned(),
                va: buffer.address(),
                flags: buffer.bind_flags(),
                bytes,
            }
        };
        Self {
            buffers: buffers.map(copy).collect(),
            streams: streams.collect(),
            output: None,
        }
    }

    /// The result, as fetched from the GPU.
    pub(super) fn set_output(&mut self, y: &Buffer, size: u64) {
        let mut bytes = vec![0; size as usize];
        y.read(0, &mut bytes);
        self.output = Some((y.address(), bytes));
    }
}
