//! Recorded jobs: another driver's with known answers, and our own taken down and run again.

use panthor_engine::quant::{Format, Spread, synthetic_activations, synthetic_matrix};
use panthor_engine::replay::capture::{CaptureError, capture};
use panthor_engine::replay::case::{Cases, Tolerance};
use panthor_engine::replay::{self, ReplayError};
use panthor_tests::{device, golden};

#[test]
fn another_drivers_thirteen_jobs_give_their_known_answers() {
    let cases = Cases::open(&golden("panvk/cases.json")).unwrap();
    assert_eq!(cases.len(), 13);
    let device = device();
    for index in 0..cases.len() {
        let case = cases.load(index).unwrap();
        let outcome = replay::run(&device, &case).unwrap();
        assert!(outcome.ok, "{}: {outcome:?}", case.op);
        if case.output.tolerance == Tolerance::Exact {
            assert_eq!(outcome.different, 0, "{}", case.op);
        }
    }
}

#[test]
fn a_wrong_answer_is_not_taken_for_right() {
    let cases = Cases::open(&golden("panvk/cases.json")).unwrap();
    let mut case = cases.load(3).unwrap();
    let last = case.output.expected.len() - 1;
    case.output.expected[last] ^= 1;
    let outcome = replay::run(&device(), &case).unwrap();
    assert_eq!((outcome.ok, outcome.different), (false, 1));
}

#[test]
fn a_stream_that_faults_says_which_and_what_became_of_the_group() {
    let cases = Cases::open(&golden("panvk/cases.json")).unwrap();
    let mut case = cases.load(3).unwrap();
    // The memory of the last stream, with an opcode that does not exist in its first word.
    let stream = *case.streams.last().unwrap();
    case.memory
        .push((stream.va, 0xff00_0000_0000_0000u64.to_le_bytes().to_vec()));
    match replay::run(&device(), &case) {
        Err(ReplayError::Stream { stream, queue, .. }) => assert_eq!((stream, queue), (3, 2)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_product_of_ours_is_taken_down_and_gives_the_same_bits_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job.json");
    let weights = synthetic_matrix(Format::Q4_1, 33, 96, 5, Spread::Normal).unwrap();
    let x = synthetic_activations(7, 96, 5, Spread::Normal);
    capture(&device(), &weights.as_matrix(), &x, 7, &path).unwrap();

    let cases = Cases::open(&path).unwrap();
    assert_eq!(cases.len(), 1);
    let case = cases.load(0).unwrap();
    assert_eq!(case.output.tolerance, Tolerance::Exact);
    assert!(case.output.expected.iter().any(|b| *b != 0));
    let outcome = replay::run(&device(), &case).unwrap();
    assert!(outcome.ok, "{outcome:?}");

    // Nothing is overwritten.
    match capture(&device(), &weights.as_matrix(), &x, 7, &path) {
        Err(CaptureError::Replay(ReplayError::File { path: named, .. })) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
}
