//! The channel between the caller's process and init inside: frames over a raw terminal line of User Mode Linux.
//!
//! A frame is a kind (1 byte), three bytes that are zero, the payload's length (4 bytes, little-endian, at most
//! [`MAX_PAYLOAD`]) and the payload. Nothing in it is trusted: a frame that is not one of [`Inward`] or [`Outward`] ends the
//! conversation with a [`FrameError`].

use thiserror::Error;

/// Version of the frames; [`Outward::Hello`] carries it, since the program that is init inside may be another build.
pub const VERSION: u32 = 1;
/// Most bytes of a payload.
pub const MAX_PAYLOAD: usize = 32 << 10;
/// Bytes before the payload.
pub(super) const HEAD: usize = 8;

/// A frame that is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// The head's kind is unknown.
    #[error("kind {0:#04x}")]
    Kind(u8),
    /// The head's reserved bytes are not zero.
    #[error("reserved bytes {0:?}")]
    Reserved([u8; 3]),
    /// The payload is longer than any may be.
    #[error("{0} bytes of payload, at most {MAX_PAYLOAD}")]
    TooLong(u32),
    /// The payload has another length than its kind has.
    #[error("kind {kind:#04x} with {length} bytes of payload")]
    Length {
        /// The kind.
        kind: u8,
        /// The payload's length.
        length: usize,
    },
    /// A field holds what it cannot.
    #[error("kind {kind:#04x}: {field} {value}")]
    Value {
        /// The kind.
        kind: u8,
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
}

/// Which of the command's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How the command inside ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code (0 to 255).
    Code(u8),
    /// By this signal (1 to 64).
    Signal(u8),
}

impl Ended {
    /// The exit code as shells count: 128 and the signal's number.
    pub fn code(self) -> u8 {
        match self {
            Ended::Code(code) => code,
            Ended::Signal(signal) => signal.saturating_add(128),
        }
    }

    /// Whether it ended by itself with exit code 0.
    pub fn success(self) -> bool {
        self == Ended::Code(0)
    }
}

/// What init could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Read its orders or mount what it needs.
    Prepare,
    /// Bind the driver: it did not make its render node.
    Probe,
    /// Find the command.
    NotFound,
    /// Start the command.
    Start,
}

/// From inside to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outward {
    /// Init runs; the virtual time since boot, in ns.
    Hello {
        /// [`VERSION`] of the program inside.
        version: u32,
        /// CLOCK_MONOTONIC inside, ns.
        now: u64,
    },
    /// The driver has its render node and the command was started.
    Started {
        /// CLOCK_MONOTONIC inside, ns.
        now: u64,
    },
    /// What the command wrote.
    Output(Stream, Vec<u8>),
    /// As many more bytes of frames with standard input may be sent.
    Credit(u32),
    /// The command closed its standard input: no more need be sent.
    InputClosed,
    /// The signal was passed on.
    Signalled(u8),
    /// The command ended and all that it wrote was sent.
    Exit {
        /// How.
        ended: Ended,
        /// CLOCK_MONOTONIC inside, ns.
        now: u64,
    },
    /// The command was not run.
    Failed {
        /// What failed.
        stage: Stage,
        /// In words.
        why: String,
    },
}

/// From the caller inwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inward {
    /// Standard input; its frames are never longer than was credited.
    Input(Vec<u8>),
    /// Standard input has ended.
    InputEnd,
    /// A signal (1 to 64) for the command and its process group.
    Signal(u8),
    /// The terminal's new size.
    Size {
        /// Rows.
        rows: u16,
        /// Columns.
        columns: u16,
    },
    /// Nobody reads this output any more.
    OutputClosed(Stream),
}

/// Something with a place in a frame.
pub trait Payload: Sized {
    /// The kind and the payload.
    fn parts(&self) -> (u8, Vec<u8>);
    /// From kind and payload.
    ///
    /// # Errors
    /// What of it is wrong.
    fn from_parts(kind: u8, payload: &[u8]) -> Result<Self, FrameError>;

    /// The frame.
    fn encode(&self) -> Vec<u8> {
        let (kind, payload) = self.parts();
        debug_assert!(payload.len() <= MAX_PAYLOAD);
        let mut frame = vec![kind, 0, 0, 0];
        frame.extend((payload.len() as u32).to_le_bytes());
        frame.extend(payload);
        frame
    }
}

fn fixed<const N: usize>(kind: u8, payload: &[u8]) -> Result<[u8; N], FrameError> {
    payload.try_into().map_err(|_| FrameError::Length {
        kind,
        length: payload.len(),
    })
}

fn two(kind: u8, payload: &[u8]) -> Result<(u64, u64), FrameError> {
    let bytes: [u8; 16] = fixed(kind, payload)?;
    let (a, b) = bytes.split_at(8);
    let word = |half: &[u8]| half.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
    Ok((word(a), word(b)))
}

fn pair(a: u64, b: u64) -> Vec<u8> {
    [a.to_le_bytes(), b.to_le_bytes()].concat()
}

fn signal(kind: u8, payload: &[u8]) -> Result<u8, FrameError> {
    match fixed::<1>(kind, payload)? {
        [number @ 1..=64] => Ok(number),
        [number] => Err(FrameError::Value {
            kind,
            field: "signal",
            value: number.into(),
        }),
    }
}

fn stream(kind: u8, code: u8) -> Result<Stream, FrameError> {
    match code {
        1 => Ok(Stream::Out),
        2 => Ok(Stream::Err),
        _ => Err(FrameError::Value {
            kind,
            field: "stream",
            value: code.into(),
        }),
    }
}

impl Payload for Outward {
    fn parts(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Hello { version, now } => (0x01, pair(u64::from(*version), *now)),
            Self::Started { now } => (0x02, now.to_le_bytes().to_vec()),
            Self::Output(Stream::Out, bytes) => (0x03, bytes.clone()),
            Self::Output(Stream::Err, bytes) => (0x04, bytes.clone()),
            Self::Credit(bytes) => (0x05, bytes.to_le_bytes().to_vec()),
            Self::InputClosed => (0x06, Vec::new()),
            Self::Signalled(number) => (0x07, vec![*number]),
            Self::Exit { ended, now } => {
                let word = match ended {
                    Ended::Code(code) => u64::from(*code),
                    Ended::Signal(number) => u64::from(*number) << 8,
                };
                (0x08, pair(word, *now))
            }
            Self::Failed { stage, why } => {
                let stage = match stage {
                    Stage::Prepare => 0,
                    Stage::Probe => 1,
                    Stage::NotFound => 2,
                    Stage::Start => 3,
                };
                let mut payload = vec![stage];
                payload.extend(why.as_bytes().iter().take(MAX_PAYLOAD - 1));
                (0x09, payload)
            }
        }
    }

    fn from_parts(kind: u8, payload: &[u8]) -> Result<Self, FrameError> {
        Ok(match kind {
            0x01 => {
                let (version, now) = two(kind, payload)?;
                let version = u32::try_from(version).map_err(|_| FrameError::Value {
                    kind,
                    field: "version",
                    value: version,
                })?;
                Self::Hello { version, now }
            }
            0x02 => Self::Started {
                now: u64::from_le_bytes(fixed(kind, payload)?),
            },
            0x03 => Self::Output(Stream::Out, payload.to_vec()),
            0x04 => Self::Output(Stream::Err, payload.to_vec()),
            0x05 => Self::Credit(u32::from_le_bytes(fixed(kind, payload)?)),
            0x06 => fixed::<0>(kind, payload).map(|_| Self::InputClosed)?,
            0x07 => Self::Signalled(signal(kind, payload)?),
            0x08 => {
                let (word, now) = two(kind, payload)?;
                let ended = match (word >> 8, (word & 0xff) as u8) {
                    (0, code) => Ended::Code(code),
                    (number @ 1..=64, 0) => Ended::Signal(number as u8),
                    _ => {
                        return Err(FrameError::Value {
                            kind,
                            field: "status",
                            value: word,
                        });
                    }
                };
                Self::Exit { ended, now }
            }
            0x09 => {
                let Some((&code, why)) = payload.split_first() else {
                    return Err(FrameError::Length { kind, length: 0 });
                };
                let stage = match code {
                    0 => Stage::Prepare,
                    1 => Stage::Probe,
                    2 => Stage::NotFound,
                    3 => Stage::Start,
                    _ => {
                        return Err(FrameError::Value {
                            kind,
                            field: "stage",
                            value: code.into(),
                        });
                    }
                };
                let why = String::from_utf8_lossy(why).into_owned();
                Self::Failed { stage, why }
            }
            _ => return Err(FrameError::Kind(kind)),
        })
    }
}

impl Payload for Inward {
    fn parts(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Input(bytes) => (0x81, bytes.clone()),
            Self::InputEnd => (0x82, Vec::new()),
            Self::Signal(number) => (0x83, vec![*number]),
            Self::Size { rows, columns } => {
                (0x84, [rows.to_le_bytes(), columns.to_le_bytes()].concat())
            }
            Self::OutputClosed(stream) => (
                0x85,
                vec![match stream {
                    Stream::Out => 1,
                    Stream::Err => 2,
                }],
            ),
        }
    }

    fn from_parts(kind: u8, payload: &[u8]) -> Result<Self, FrameError> {
        Ok(match kind {
            0x81 => Self::Input(payload.to_vec()),
            0x82 => fixed::<0>(kind, payload).map(|_| Self::InputEnd)?,
            0x83 => Self::Signal(signal(kind, payload)?),
            0x84 => {
                let [r0, r1, c0, c1] = fixed(kind, payload)?;
                Self::Size {
                    rows: u16::from_le_bytes([r0, r1]),
                    columns: u16::from_le_bytes([c0, c1]),
                }
            }
            0x85 => {
                let [code] = fixed(kind, payload)?;
                Self::OutputClosed(stream(kind, code)?)
            }
            _ => return Err(FrameError::Kind(kind)),
        })
    }
}

/// Puts frames together again from bytes in pieces of any size.
#[derive(Debug, Default)]
pub struct Parser {
    bytes: Vec<u8>,
    at: usize,
    broken: Option<FrameError>,
}

impl Parser {
    /// Takes bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        // After an error nothing more is understood, so nothing more is kept.
        if self.broken.is_none() {
            self.bytes.drain(..std::mem::take(&mut self.at));
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The next whole frame, if it is there.
    ///
    /// # Errors
    /// A frame that is none; every later call says the same.
    pub fn next<P: Payload>(&mut self) -> Result<Option<P>, FrameError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let result = self.parse();
        if let Err(error) = &result {
            self.broken = Some(error.clone());
            self.bytes = Vec::new();
        }
        result
    }

    fn parse<P: Payload>(&mut self) -> Result<Option<P>, FrameError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((head, rest)) = rest.split_at_checked(HEAD) else {
            return Ok(None);
        };
        let &[kind, r0, r1, r2, l0, l1, l2, l3] = head else {
            return Ok(None);
        };
        if [r0, r1, r2] != [0; 3] {
            return Err(FrameError::Reserved([r0, r1, r2]));
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length as usize > MAX_PAYLOAD {
            return Err(FrameError::TooLong(length));
        }
        let Some(payload) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let frame = P::from_parts(kind, payload)?;
        self.at += HEAD + length as usize;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn every_outward() -> Vec<Outward> {
        vec![
            Outward::Hello {
                version: 7,
                now: 1 << 40,
            },
            Outward::Started { now: u64::MAX },
            Outward::Output(Stream::Out, (0..=255).collect()),
            Outward::Output(Stream::Err, Vec::new()),
            Outward::Credit(u32::MAX),
            Outward::InputClosed,
            Outward::Signalled(15),
            Outward::Exit {
                ended: Ended::Code(255),
                now: 3,
            },
            Outward::Exit {
                ended: Ended::Signal(9),
                now: 3,
            },
            Outward::Failed {
                stage: Stage::Probe,
                why: "no firmware".into(),
            },
        ]
    }

    fn every_inward() -> Vec<Inward> {
        vec![
            Inward::Input(vec![0, 255, 3, 17, 19, 26]),
            Inward::InputEnd,
            Inward::Signal(64),
            Inward::Size {
                rows: 24,
                columns: 80,
            },
            Inward::OutputClosed(Stream::Out),
            Inward::OutputClosed(Stream::Err),
        ]
    }

    fn through<P: Payload>(frames: &[P], piece: usize) -> Vec<P> {
        let bytes: Vec<u8> = frames.iter().flat_map(P::encode).collect();
        let mut parser = Parser::default();
        let mut got = Vec::new();
        for piece in bytes.chunks(piece) {
            parser.push(piece);
            while let Some(frame) = parser.next().expect("a frame") {
                got.push(frame);
            }
        }
        got
    }

    #[test]
    fn frames_come_out_as_they_went_in_whatever_the_pieces() {
        for piece in [1, 2, 7, 8, 9, 4096] {
            assert_eq!(through(&every_outward(), piece), every_outward());
            assert_eq!(through(&every_inward(), piece), every_inward());
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_by_name_and_for_good() {
        let refused = |bytes: &[u8]| {
            let mut parser = Parser::default();
            parser.push(bytes);
            let error = parser.next::<Outward>().expect_err("no frame");
            parser.push(&Outward::InputClosed.encode());
            assert_eq!(parser.next::<Outward>(), Err(error.clone()));
            error
        };
        assert_eq!(
            refused(&[0x81, 0, 0, 0, 0, 0, 0, 0]),
            FrameError::Kind(0x81)
        );
        assert_eq!(
            refused(&[1, 0, 9, 0, 0, 0, 0, 0]),
            FrameError::Reserved([0, 9, 0])
        );
        assert_eq!(
            refused(&[3, 0, 0, 0, 1, 0x80, 0, 0]),
            FrameError::TooLong(0x8001)
        );
        assert_eq!(
            refused(&[6, 0, 0, 0, 1, 0, 0, 0, 5]),
            FrameError::Length { kind: 6, length: 1 }
        );
        assert!(matches!(
            refused(&[7, 0, 0, 0, 1, 0, 0, 0, 65]),
            FrameError::Value {
                field: "signal",
                value: 65,
                ..
            }
        ));
        assert!(matches!(
            refused(&[9, 0, 0, 0, 1, 0, 0, 0, 4]),
            FrameError::Value { field: "stage", .. }
        ));
        let mut cut = Parser::default();
        cut.push(&[1, 0, 0]);
        assert_eq!(cut.next::<Outward>(), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut parser = Parser::default();
            parser.push(&bytes);
            // Whatever is accepted encodes to the bytes that it came from, but for a failure's text that is no UTF-8.
            let mut again = Vec::new();
            while let Ok(Some(frame)) = parser.next::<Outward>() {
                let lossy = matches!(&frame, Outward::Failed { why, .. } if why.contains('\u{fffd}'));
                prop_assume!(!lossy);
                again.extend(frame.encode());
            }
            prop_assert!(bytes.starts_with(&again));
        }
    }
}
