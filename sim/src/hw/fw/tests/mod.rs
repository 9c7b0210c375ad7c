//! The driver's part played against the firmware, over registers, page tables and memory.

mod cores;
mod heap;
mod hostile;
mod slots;
mod streams;

use mali_isa::csf::assemble_program;

use super::layout::{
    self, GLB_IN, GLB_OUT, cs, cs_in, cs_out, csg, csg_in, csg_out, glb_in, glb_out,
};
use crate::csf::{JobParams, job_words};
use crate::hw::{Hardware, Options, PhysMem};

const MEMORY: u64 = 8 << 20;
/// Tables and pages are taken from here on, each as it is needed.
const FIRST_PAGE: u64 = 0x1000;
/// nG, AF, inner shareable, unprivileged, not cached, not executable: as io-pgtable-arm writes it.
const UNCACHED: u64 = 3 << 53 | 1 << 11 | 1 << 10 | 3 << 8 | 1 << 6 | 3;
/// What `mair_to_memattr` makes of io-pgtable-arm's MAIR.
const MEMATTR: u64 = 0x004c_4c4c_8f4c;
/// `panthor_vm_active` for 48 bits.
const TRANSCFG: u64 = 2 << 24 | 1 << 30 | 6 | 7 << 6;

/// In the group's space: a ring, a page of streams, a page of data.
const RING: u64 = 0x10_0000;
const RING_BYTES: u64 = 0x1000;
const STREAM: u64 = 0x20_0000;
const DATA: u64 = 0x30_0000;
/// In the MCU's space: ring positions (a page in, a page out per stream) and suspend buffers.
const POSITIONS: u64 = 0x0410_0000;
const SUSPEND: u64 = 0x0420_0000;

/// The guest: registers, memory, and the driver's knowledge of what it has asked for.
struct Guest {
    hw: Hardware,
    memory: PhysMem,
    now: u64,
    next_page: u64,
    roots: [u64; 2],
}

impl Guest {
    /// A guest whose firmware is up and configured as panthor does it.
    fn new(options: &str) -> Self {
        let mut guest = Self::unbooted(options);
        guest.boot();
        guest
    }

    fn unbooted(options: &str) -> Self {
        let options: Options = options.parse().unwrap();
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, MEMORY).unwrap();
        let memory = PhysMem::map(&file, MEMORY).unwrap();
        let mut guest = Self {
            hw: Hardware::new(options, memory),
            memory: PhysMem::map(&file, MEMORY).unwrap(),
            now: 0,
            next_page: FIRST_PAGE,
            roots: [0; 2],
        };
        guest.roots = [guest.page(), guest.page()];
        guest.map(0, layout::SHARED, layout::SHARED_BYTES);
        guest.map(0, POSITIONS, 8 * 0x2000);
        guest.map(0, SUSPEND, 2 * u64::from(layout::SUSPEND_BYTES));
        guest.map(1, RING, 8 * RING_BYTES);
        guest.map(1, STREAM, 0x4000);
        guest.map(1, DATA, 0x1000);
        guest
    }

    fn page(&mut self) -> u64 {
        let page = self.next_page;
        self.next_page += 0x1000;
        assert!(self.next_page <= MEMORY);
        page
    }

    fn map(&mut self, space: usize, va: u64, bytes: u64) {
        for va in (va..va + bytes).step_by(0x1000) {
            let mut table = self.roots[space];
            for shift in [39, 30, 21] {
                let place = table + 8 * (va >> shift & 511);
                let entry = self.memory.read64(place).unwrap();
                table = if entry == 0 {
                    let page = self.page();
                    self.memory.write64(place, page | 3).unwrap();
                    page
                } else {
                    entry & !0xfff
                };
            }
            let page = self.page();
            let place = table + 8 * (va >> 12 & 511);
            self.memory.write64(place, page | UNCACHED).unwrap();
        }
    }

    fn physical(&self, space: usize, va: u64) -> u64 {
        let mut table = self.roots[space];
        for shift in [39, 30, 21, 12] {
            let entry = self.memory.read64(table + 8 * (va >> shift & 511)).unwrap();
            table = entry & 0xffff_ffff_f000;
        }
        table + (va & 0xfff)
    }

    fn get(&self, va: u64) -> u32 {
        self.memory.read32(self.physical(0, va)).unwrap()
    }
    fn set(&self, va: u64, value: u32) {
        self.memory.write32(self.physical(0, va), value).unwrap();
    }
    fn get64(&self, va: u64) -> u64 {
        self.memory.read64(self.physical(0, va)).unwrap()
    }
    fn set64(&self, va: u64, value: u64) {
        self.memory.write64(self.physical(0, va), value).unwrap();
    }
    fn data(&self, offset: u64) -> u64 {
        self.memory.read64(self.physical(1, DATA + offset)).unwrap()
    }
    fn set_data(&self, offset: u64, value: u64) {
        let place = self.physical(1, DATA + offset);
        self.memory.write64(place, value).unwrap();
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.now += 100;
        self.hw.read(offset, 4, self.now) as u32
    }
    fn write(&mut self, offset: u32, value: u32) {
        self.now += 100;
        self.hw.write(offset, 4, value.into(), self.now);
    }

    /// Lets time pass.
    fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(at) = self.hw.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.hw.tick(self.now);
        }
        self.now = end;
        self.hw.tick(end);
    }

    fn space(&mut self, space: u32, on: bool) {
        let base = 0x2400 + 0x40 * space;
        let (root, config) = if on {
            (self.roots[space.min(1) as usize], TRANSCFG)
        } else {
            (0, 1)
        };
        for (offset, value) in [(0, root), (8, MEMATTR), (0x30, config)] {
            self.write(base + offset, value as u32);
            self.write(base + offset + 4, (value >> 32) as u32);
        }
        self.write(base + 0x18, 1);
        self.run(100_000);
    }

    fn boot(&mut self) {
        self.write(0x1a0, 1);
        self.run(1_000_000);
        self.space(0, true);
        self.space(1, true);
        self.write(0x1008, !0);
        self.write(0x2008, !0);
        self.write(0x700, 2);
        self.run(1_000_000);
        assert_eq!(self.read(0x704), 1, "the firmware is not up");
        assert_eq!(self.take_jobs(), 1 << 31);
        // panthor_fw_init_global_iface.
        self.set64(GLB_IN + glb_in::CORE_EN_MASK, 0x5_0005);
        self.set(GLB_IN + glb_in::PROGRESS_TIMER, 5 * 500 * 1024);
        self.set(GLB_IN + glb_in::IDLE_TIMER, 800 | 1 << 31);
        self.set(GLB_IN + glb_in::ACK_IRQ_MASK, 0x40e | 1 << 8 | 1 << 26);
        let ack = self.get(GLB_OUT + glb_out::ACK);
        self.set(GLB_IN + glb_in::REQ, (ack ^ 0xe) | 0x480);
        self.ring();
        assert_eq!(
            self.get(GLB_OUT + glb_out::ACK),
            self.get(GLB_IN + glb_in::REQ)
        );
        assert_eq!(self.take_jobs(), 1 << 31);
    }

    /// Takes the pending bits of the job interrupt.
    fn take_jobs(&mut self) -> u32 {
        let bits = self.read(0x1000);
        self.write(0x1004, bits);
        bits
    }

    fn ring(&mut self) {
        self.write(0x80000, 1);
        self.run(20_000);
    }

    /// `panthor_fw_ring_csg_doorbells`.
    fn ring_group(&mut self, slot: usize) {
        let ack = self.get(GLB_OUT + glb_out::DOORBELL_ACK);
        self.set(GLB_IN + glb_in::DOORBELL_REQ, ack ^ 1 << slot);
        self.ring();
    }

    fn ring_stream(&mut self, slot: usize, stream: usize) {
        let ack = self.get(csg_out(slot) + csg_out::DOORBELL_ACK);
        self.set(csg_in(slot) + csg_in::DOORBELL_REQ, ack ^ 1 << stream);
        self.ring_group(slot);
    }

    fn positions(slot: usize) -> u64 {
        POSITIONS + 0x2000 * slot as u64
    }

    /// `csg_slot_prog_locked` and START or RESUME, with one stream, whose ring is the slot's.
    fn program(&mut self, slot: usize) {
        let block = cs_in(slot, 0);
        let positions = Self::positions(slot);
        let extract = self.get64(positions + 0x1000);
        self.set64(positions + 8, extract);
        self.set64(block + cs_in::RINGBUF_BASE, RING + RING_BYTES * slot as u64);
        self.set(block + cs_in::RINGBUF_SIZE, RING_BYTES as u32);
        self.set64(block + cs_in::RINGBUF_INPUT, positions);
        self.set64(block + cs_in::RINGBUF_OUTPUT, positions + 0x1000);
        self.set(block + cs_in::CONFIG, 1 | (slot as u32 + 1) << 8);
        self.set(block + cs_in::ACK_IRQ_MASK, !0);
        let req = self.get(block + cs_in::REQ) & !cs::STATE_MASK;
        self.set(
            block + cs_in::REQ,
            req | cs::START | cs::IDLE_EMPTY | cs::IDLE_SYNC_WAIT,
        );
        let block = csg_in(slot);
        self.set64(block + csg_in::ALLOW_COMPUTE, 0x5_0005);
        self.set(block + csg_in::ENDPOINT_REQ, 4 | 15 << 28);
        self.set(block + csg_in::CONFIG, 1);
        let buffer = SUSPEND + u64::from(layout::SUSPEND_BYTES) * (slot as u64 % 2);
        self.set64(block + csg_in::SUSPEND_BUF, buffer);
        self.set(block + csg_in::ACK_IRQ_MASK, !0);
        let ack = self.get(csg_out(slot) + csg_out::DOORBELL_ACK);
        self.set(block + csg_in::DOORBELL_REQ, ack ^ 1);
    }

    /// Asks for a state and lets time pass.
    fn state(&mut self, slot: usize, state: u32) {
        let req = self.get(csg_in(slot) + csg_in::REQ);
        let ack = self.get(csg_out(slot) + csg_out::ACK);
        let mut next = (req & !csg::STATE_MASK) | state;
        if matches!(state, csg::START | csg::RESUME) {
            next = (next & !csg::ENDPOINT_CONFIG) | (!ack & csg::ENDPOINT_CONFIG);
        } else {
            // cs_slot_reset_locked: without a doorbell.
            let req = self.get(cs_in(slot, 0) + cs_in::REQ);
            self.set(cs_in(slot, 0) + cs_in::REQ, req & !cs::STATE_MASK);
        }
        self.set(csg_in(slot) + csg_in::REQ, next);
        self.ring_group(slot);
        self.run(200_000);
    }

    fn acked_state(&self, slot: usize) -> u32 {
        self.get(csg_out(slot) + csg_out::ACK) & csg::STATE_MASK
    }

    fn start(&mut self, slot: usize) {
        self.program(slot);
        self.state(slot, csg::START);
        assert_eq!(self.acked_state(slot), csg::START);
    }

    /// Puts a job into the slot's ring (`queue_run_job`); its sync object is at 0x800 + 16 * slot of the data.
    fn submit(&mut self, slot: usize, text: &str) {
        let bytes = assemble_program(text).unwrap();
        let stream = STREAM + 0x800 * slot as u64;
        for (at, word) in bytes.chunks_exact(8).enumerate() {
            let place = self.physical(1, stream) + 8 * at as u64;
            let word = u64::from_le_bytes(word.try_into().unwrap());
            self.memory.write64(place, word).unwrap();
        }
        self.submit_at(slot, stream, bytes.len() as u32);
    }

    fn submit_at(&mut self, slot: usize, start: u64, size: u32) {
        let words = job_words(&JobParams {
            latest_flush: 0,
            start,
            size,
            sync: Some(DATA + 0x800 + 16 * slot as u64),
        })
        .unwrap();
        let insert = self.get64(Self::positions(slot));
        let ring = RING + RING_BYTES * slot as u64;
        for (at, word) in words.iter().enumerate() {
            let offset = (insert + 8 * at as u64) % RING_BYTES;
            let place = self.physical(1, ring + offset);
            self.memory.write64(place, *word).unwrap();
        }
        self.set64(Self::positions(slot), insert + 8 * words.len() as u64);
    }

    /// Rings the slot's user doorbell and lets time pass.
    fn kick(&mut self, slot: usize) {
        self.write(0x80000 + 0x10000 * (slot as u32 + 1), 1);
        self.run(200_000);
    }

    fn seqno(&self, slot: usize) -> u64 {
        self.data(0x800 + 16 * slot as u64)
    }

    /// Events of a group that are not acknowledged.
    fn events(&self, slot: usize) -> u32 {
        (self.get(csg_in(slot) + csg_in::REQ) ^ self.get(csg_out(slot) + csg_out::ACK))
            & 0xb000_0000
    }

    /// Events of the slot's stream that are not acknowledged.
    fn stream_events(&self, slot: usize) -> u32 {
        let req = self.get(cs_in(slot, 0) + cs_in::REQ);
        (req ^ self.get(cs_out(slot, 0) + cs_out::ACK)) & 0xc400_0000
    }

    /// `sched_process_csg_irq_locked`: acknowledges everything.
    fn process(&mut self, slot: usize) {
        let ack = self.get(csg_out(slot) + csg_out::ACK);
        let req = self.get(csg_in(slot) + csg_in::REQ);
        self.set(
            csg_in(slot) + csg_in::REQ,
            (req & !0xb000_0000) | (ack & 0xb000_0000),
        );
        let interrupts = self.get(csg_out(slot) + csg_out::CS_IRQ_REQ);
        self.set(csg_in(slot) + csg_in::CS_IRQ_ACK, interrupts);
        let ack = self.get(cs_out(slot, 0) + cs_out::ACK) & 0xc000_0000;
        let req = self.get(cs_in(slot, 0) + cs_in::REQ) & !0xc000_0000;
        self.set(cs_in(slot, 0) + cs_in::REQ, req | ack);
        self.ring_stream(slot, 0);
    }

    fn violations(&self) -> Vec<String> {
        let summary = self.hw.summary();
        summary.violations.iter().map(|v| v.text.clone()).collect()
    }
}
