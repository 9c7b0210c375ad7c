//! A tiler without memory, with the driver's answers (`group_process_tiler_oom`).

use super::*;

const HEAP: u64 = DATA + 0x400;
/// Two pages that are mapped, as `panthor_heap_grow` spells a chunk.
const CHUNK: u64 = (STREAM + 0x2000) | 2;

/// Stores 5 behind a render pass that has begun.
fn pass(handler: Option<u64>) -> String {
    let handler = handler.map_or(String::new(), |at| {
        format!("MOVE48 d10, #{at:#x}\nMOVE32 r12, #24\nSET_EXCEPTION_HANDLER d10, r12\n")
    });
    format!(
        "SET_SB_ENTRY #2, #0\n{handler}MOVE48 d4, #{HEAP:#x}\nHEAP_SET d4\nHEAP_OPERATION.vt_start #0, #0\n\
         MOVE48 d6, #{:#x}\nMOVE32 r8, #5\nSTORE_MULTIPLE [d6], r8\nHEAP_OPERATION.vt_end #0, #0\n",
        DATA + 0x200
    )
}

impl Guest {
    fn counters(&self) -> [u32; 3] {
        let out = cs_out(0, 0);
        [
            cs_out::HEAP_VT_START,
            cs_out::HEAP_VT_END,
            cs_out::HEAP_FRAG_END,
        ]
        .map(|at| self.get(out + at))
    }

    fn answer(&mut self, chunk: u64) {
        let block = cs_in(0, 0);
        self.set64(block + cs_in::HEAP_START, chunk);
        let ack = self.get(cs_out(0, 0) + cs_out::ACK) & cs::TILER_OOM;
        let req = self.get(block + cs_in::REQ) & !cs::TILER_OOM;
        self.set(block + cs_in::REQ, req | ack);
        self.ring_stream(0, 0);
        self.run(200_000);
    }
}

fn out_of_memory(options: &str, text: &str) -> Guest {
    let mut guest = Guest::new(options);
    guest.start(0);
    guest.process(0);
    guest.submit(0, text);
    guest.kick(0);
    assert_eq!(guest.stream_events(0), cs::TILER_OOM);
    let raised = guest.get(csg_out(0) + csg_out::CS_IRQ_REQ);
    assert_eq!((raised ^ guest.get(csg_in(0) + csg_in::CS_IRQ_ACK)) & 1, 1);
    assert_eq!(guest.get64(cs_out(0, 0) + cs_out::HEAP_ADDRESS), HEAP);
    assert_eq!(guest.counters(), [1, 0, 0]);
    // The driver rings without an answer when it has seen the event, and the queue goes on waiting.
    guest.process(0);
    guest.run(1_000_000);
    assert_eq!((guest.seqno(0), guest.data(0x200)), (0, 0));
    guest
}

#[test]
fn a_render_pass_without_the_fault_needs_nothing() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.process(0);
    for job in 1..=2 {
        guest.submit(0, &pass(None));
        guest.kick(0);
        assert_eq!((guest.seqno(0), guest.stream_events(0)), (job, 0));
    }
    assert_eq!(guest.data(0x400), 2 << 32 | 2);
    assert_eq!(guest.data(0x200), 5);
    assert_eq!(guest.violations(), Vec::<String>::new());
}

#[test]
fn each_chunk_is_asked_for_and_the_job_goes_on() {
    let mut guest = out_of_memory("fault=tiler-oom:chunks=2:once", &pass(None));
    guest.answer(CHUNK);
    assert_eq!((guest.stream_events(0), guest.seqno(0)), (cs::TILER_OOM, 0));
    guest.answer(CHUNK);
    assert_eq!((guest.stream_events(0), guest.seqno(0)), (0, 1));
    assert_eq!(guest.data(0x200), 5);
    assert_eq!(guest.violations(), Vec::<String>::new());
    assert_eq!(guest.hw.summary().faults[0].1, 1);
}

#[test]
fn without_a_chunk_the_handler_runs() {
    let mut guest = out_of_memory("fault=tiler-oom", &pass(Some(STREAM + 0x3000)));
    let handler = format!(
        "MOVE48 d20, #{:#x}\nMOVE32 r22, #7\nSTORE_MULTIPLE [d20], r22\n",
        DATA + 0x300
    );
    for (at, word) in assemble_program(&handler)
        .unwrap()
        .chunks_exact(8)
        .enumerate()
    {
        let place = guest.physical(1, STREAM + 0x3000) + 8 * at as u64;
        let word = u64::from_le_bytes(word.try_into().unwrap());
        guest.memory.write64(place, word).unwrap();
    }
    guest.answer(0);
    assert_eq!((guest.stream_events(0), guest.seqno(0)), (0, 1));
    assert_eq!((guest.data(0x200), guest.data(0x300)), (5, 7));
}

#[test]
fn without_a_handler_the_queue_is_at_fault() {
    let mut guest = out_of_memory("fault=tiler-oom", &pass(None));
    guest.answer(0);
    assert_eq!(guest.stream_events(0), cs::FATAL);
    assert_eq!(guest.get(cs_out(0, 0) + cs_out::FATAL), 0x60);
    assert_eq!(guest.seqno(0), 0);
    guest.state(0, csg::TERMINATE);
    assert_eq!(guest.acked_state(0), csg::TERMINATE);
}

#[test]
fn an_answer_that_is_no_chunk_has_a_name() {
    for chunk in [STREAM, 0x7000_0001, (STREAM + 0x3000) | 2, !0] {
        let mut guest = out_of_memory("fault=tiler-oom", &pass(None));
        guest.answer(chunk);
        assert_eq!(guest.stream_events(0), cs::FATAL, "{chunk:#x}");
        assert!(guest.violations()[0].contains("the heap chunk"));
    }
}

#[test]
fn a_suspended_group_asks_again() {
    let mut guest = out_of_memory("fault=tiler-oom:once", &pass(None));
    guest.state(0, csg::SUSPEND);
    assert_eq!(guest.acked_state(0), csg::SUSPEND);
    assert_eq!(guest.stream_events(0), 0);
    guest.process(0);
    guest.program(0);
    guest.state(0, csg::RESUME);
    assert_eq!(guest.stream_events(0), cs::TILER_OOM);
    assert_eq!(guest.counters(), [1, 0, 0]);
    guest.answer(CHUNK);
    assert_eq!((guest.seqno(0), guest.data(0x200)), (1, 5));
    assert_eq!(guest.violations(), Vec::<String>::new());
}
