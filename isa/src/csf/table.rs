//! The one table of v10 command-stream instructions: opcode, fields with their place, and text.
//!
//! Everything else (the [`Instr`] enum, encoding, decoding, text, assembler) is made from it. Fields and opcodes are
//! those of Mesa's `src/panfrost/genxml/v10.xml` (structs `CS *`), the text that of `genxml/decode_csf.c`
//! (`print_cs_instr`).
//!
//! Text templates: literal characters, and
//! - `{field}` for a register or a named value;
//! - `{field:u}`, `{field:i}`, `{field:x}` for a number in decimal, signed decimal, hexadecimal without prefix (as Mesa
//!   prints masks); `{field:H}` for `0x` and capital hexadecimal (read as decimal without the prefix);
//! - `{field:+name}` for `.name` printed where the bit is set, `{field:-name}` where it is clear, `{field:R}` for
//!   `.reject` or `.inherit`;
//! - `{field:p}` for ` #0x…` printed unless zero, `{field:d}` for nothing (the field has only one value);
//! - `{base&mask}` for a register list, `{base..count}` for a register range, `{address@offset}` for `[dN + offset]`.

use super::error::{DecodeError, EncodeError, FieldError};
use super::fields::{
    Bytes8, Condition, ExceptionType, FieldValue, FlushMode, HeapOperation, Kind, OtherFlushMode,
    Reg32, Reg64, State, SyncScope, TaskAxis, TileOrder,
};

/// One field of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, the same as in [`Instr`].
    pub name: &'static str,
    /// Lowest bit.
    pub start: u8,
    /// Width in bits.
    pub bits: u8,
    /// How its bits are to be understood.
    pub kind: Kind,
    /// What it means.
    pub doc: &'static str,
}

impl Field {
    /// The field's bits in place.
    #[must_use]
    pub const fn mask(&self) -> u64 {
        self.value_mask() << self.start
    }
    /// The field's bits moved down to bit 0.
    #[must_use]
    pub const fn value_mask(&self) -> u64 {
        (1u64 << self.bits) - 1
    }
    pub(super) fn pack(&self, raw: u64) -> Result<u64, FieldError> {
        let cut = raw & self.value_mask();
        let back = match self.kind {
            Kind::Int => self.sign_extend(cut),
            _ => cut,
        };
        if back != raw {
            return Err(FieldError::TooWide {
                value: raw,
                bits: self.bits,
            });
        }
        self.kind.check(cut)?;
        Ok(cut << self.start)
    }
    /// The field's value in `word`, sign-extended to 64 bits for signed fields.
    #[must_use]
    pub const fn extract(&self, word: u64) -> u64 {
        let cut = (word >> self.start) & self.value_mask();
        match self.kind {
            Kind::Int => self.sign_extend(cut),
            _ => cut,
        }
    }
    const fn sign_extend(&self, cut: u64) -> u64 {
        let shift = 64 - self.bits as u32;
        (((cut << shift) as i64) >> shift) as u64
    }
}

/// One instruction of the table.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Its name in text.
    pub mnemonic: &'static str,
    /// Its top byte.
    pub opcode: u8,
    /// Its fields.
    pub fields: &'static [Field],
    /// What follows the mnemonic in text (see the module's documentation).
    pub template: &'static str,
    /// What it does.
    pub doc: &'static str,
}

impl Op {
    /// The entry of `opcode`.
    #[must_use]
    pub fn of(opcode: u8) -> Option<&'static Op> {
        TABLE.iter().find(|op| op.opcode == opcode)
    }
    /// The bits that some field uses, and the opcode's.
    #[must_use]
    pub fn used_bits(&self) -> u64 {
        self.fields
            .iter()
            .fold(0xff << OPCODE_SHIFT, |bits, f| bits | f.mask())
    }
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// The opcode is the word's top byte (`CS Base`).
pub(super) const OPCODE_SHIFT: u32 = 56;

macro_rules! instructions {
    ($(
        $(#[doc = $doc:literal])*
        $variant:ident = $opcode:literal $mnemonic:literal $template:literal {
            $( $(#[doc = $fdoc:literal])* $field:ident : $type:ty = $start:literal + $bits:literal ),* $(,)?
        }
    )*) => {
        /// One v10 command-stream instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Instr {
            $(
                $(#[doc = $doc])*
                $variant { $( $(#[doc = $fdoc])* $field: $type ),* },
            )*
        }

        /// All v10 command-stream instructions.
        pub const TABLE: &[Op] = &[
            $( Op {
                mnemonic: $mnemonic,
                opcode: $opcode,
                fields: &[ $( Field {
                    name: stringify!($field),
                    start: $start,
                    bits: $bits,
                    kind: <$type as FieldValue>::KIND,
                    doc: concat!($($fdoc),*),
                } ),* ],
                template: $template,
                doc: concat!($($doc, "\n"),*),
            } ),*
        ];

        impl Instr {
            /// The instruction's entry in the table.
            #[must_use]
            pub fn op(&self) -> &'static Op {
                let opcode: u8 = match self { $( Instr::$variant { .. } => $opcode ),* };
                // Every variant is made by the table's own macro.
                Op::of(opcode).unwrap_or(&TABLE[0])
            }

            /// Packs the instruction into its word.
            ///
            /// # Errors
            /// [`EncodeError`] where a field's value has no encoding.
            pub fn encode(&self) -> Result<u64, EncodeError> {
                match *self {
                    $( Instr::$variant { $($field),* } => {
                        let op = self.op();
                        #[allow(unused_mut)]
                        let mut word = u64::from(op.opcode) << OPCODE_SHIFT;
                        #[allow(unused_variables, unused_mut)]
                        let mut fields = op.fields.iter();
                        $( if let Some(f) = fields.next() {
                            word |= f.pack($field.to_raw()).map_err(|error| EncodeError {
                                mnemonic: op.mnemonic, field: f.name, error,
                            })?;
                        } )*
                        Ok(word)
                    } )*
                }
            }

            /// Unpacks a word.
            ///
            /// # Errors
            /// [`DecodeError`] where the opcode, a reserved bit or a field's value is not v10's.
            pub fn decode(word: u64) -> Result<Self, DecodeError> {
                let opcode = (word >> OPCODE_SHIFT) as u8;
                let op = Op::of(opcode).ok_or(DecodeError::UnknownOpcode { word, opcode })?;
                let mnemonic = op.mnemonic;
                let reserved = word & !op.used_bits();
                if reserved != 0 {
                    return Err(DecodeError::ReservedBits { word, mnemonic, bits: reserved });
                }
                for f in op.fields {
                    f.kind.check((word & f.mask()) >> f.start)
                        .map_err(|error| DecodeError::Field { word, mnemonic, field: f.name, error })?;
                }
                match opcode {
                    $( $opcode => {
                        #[allow(unused_variables, unused_mut)]
                        let mut fields = op.fields.iter().map(|f| f.extract(word));
                        Ok(Instr::$variant { $( $field: <$type>::from_raw(fields.next().unwrap_or(0)) ),* })
                    } )*
                    _ => Err(DecodeError::UnknownOpcode { word, opcode }),
                }
            }
        }
    };
}

instructions! {
    /// Does nothing. Hardware ignores the payload, which tools use for metadata.
    Nop = 0 "NOP" "{payload:p}" {
        /// Ignored by hardware.
        payload: u64 = 0 + 56,
    }
    /// Writes a 48-bit immediate, zero-extended, into a register pair.
    Move48 = 1 "MOVE48" " {dst}, #{imm:H}" {
        /// Destination pair.
        dst: Reg64 = 48 + 8,
        /// Value, 48 bits.
        imm: u64 = 0 + 48,
    }
    /// Writes an immediate into a register.
    Move32 = 2 "MOVE32" " {dst}, #{imm:H}" {
        /// Destination.
        dst: Reg32 = 48 + 8,
        /// Value.
        imm: u32 = 0 + 32,
    }
    /// Blocks the stream until every scoreboard entry of the mask is idle.
    Wait = 3 "WAIT" "{progress_increment:+progress_inc} #{wait_mask:x}" {
        /// One bit per scoreboard entry.
        wait_mask: u8 = 16 + 8,
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
    }
    /// Starts a compute job on the shader cores; completion signals the endpoint scoreboard entry.
    RunCompute = 4 "RUN_COMPUTE"
        ".{task_axis}.srt{srt:u}.spd{spd:u}.tsd{tsd:u}.fau{fau:u}{progress_increment:+progress_inc} #{task_increment:u}" {
        /// Workgroups per task along the axis; 0 is undefined.
        task_increment: u16 = 0 + 14,
        /// Axis along which the job is cut into tasks.
        task_axis: TaskAxis = 14 + 2,
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
        /// Which of the four shader resource table registers.
        srt: u8 = 40 + 2,
        /// Which of the four shader program descriptor registers.
        spd: u8 = 42 + 2,
        /// Which of the four local storage descriptor registers.
        tsd: u8 = 44 + 2,
        /// Which of the four FAU registers.
        fau: u8 = 46 + 2,
    }
    /// Starts tiling without vertex shading.
    RunTiling = 5 "RUN_TILING"
        ".srt{srt:u}.spd{spd:u}.tsd{tsd:u}.fau{fau:u}{progress_increment:+progress_inc}{flags_override:p}" {
        /// Bits merged into the primitive flags.
        flags_override: u32 = 0 + 32,
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
        /// Which of the four shader resource table registers.
        srt: u8 = 40 + 2,
        /// Which of the four shader program descriptor registers.
        spd: u8 = 42 + 2,
        /// Which of the four local storage descriptor registers.
        tsd: u8 = 44 + 2,
        /// Which of the four FAU registers.
        fau: u8 = 46 + 2,
    }
    /// Starts index-driven vertex shading.
    RunIdvs = 6 "RUN_IDVS"
        "{malloc_enable:-no_malloc}{draw_id_register_enable:+draw_id_enable}.varying_srt{varying_srt:u}.varying_fau{varying_fau:u}.varying_tsd{varying_tsd:u}.frag_srt{fragment_srt:u}.frag_tsd{fragment_tsd:u}{progress_increment:+progress_inc} {draw_id}, #{flags_override:x}" {
        /// Bits merged into the primitive flags.
        flags_override: u32 = 0 + 32,
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
        /// Lets hardware allocate positions and varyings from the tiler heap.
        malloc_enable: bool = 33 + 1,
        /// Takes the draw number from `draw_id`.
        draw_id_register_enable: bool = 34 + 1,
        /// Varying shaders use resource table register 1 instead of 0.
        varying_srt: bool = 35 + 1,
        /// Varying shaders use FAU register 1 instead of 0.
        varying_fau: bool = 36 + 1,
        /// Varying shaders use local storage register 1 instead of 0.
        varying_tsd: bool = 37 + 1,
        /// Fragment shaders use resource table register 2 instead of 0.
        fragment_srt: bool = 38 + 1,
        /// Fragment shaders use local storage register 2 instead of 0.
        fragment_tsd: bool = 39 + 1,
        /// Register of the draw number.
        draw_id: Reg32 = 40 + 8,
    }
    /// Starts fragment shading of a framebuffer.
    RunFragment = 7 "RUN_FRAGMENT"
        "{enable_tem:+tile_enable_map_enable}.tile_order={tile_order}{progress_increment:+progress_inc}" {
        /// Renders only the tiles of the tile enable map.
        enable_tem: bool = 0 + 1,
        /// Order of tiles.
        tile_order: TileOrder = 4 + 4,
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
    }
    /// Draws one full-screen primitive.
    RunFullscreen = 8 "RUN_FULLSCREEN" "{progress_increment:+progress_inc} {dcd}, #{flags_override:x}" {
        /// Bits merged into the primitive flags.
        flags_override: u32 = 0 + 32,
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
        /// Address of the draw call descriptor. Mesa prints it as `rN`; both spellings are taken.
        dcd: Reg64 = 40 + 8,
    }
    /// Ends a tiling pass.
    FinishTiling = 9 "FINISH_TILING" "{progress_increment:+progress_inc}" {
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
    }
    /// Gives heap chunks that fragment work has consumed back to the tiler heap.
    FinishFragment = 11 "FINISH_FRAGMENT"
        "{increment_fragment_completed:+frag_end} {last_heap_chunk}, {first_heap_chunk}, #{wait_mask:x}, #{signal_slot:u}" {
        /// Also counts a completed fragment pass.
        increment_fragment_completed: bool = 0 + 1,
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// Last chunk freed.
        last_heap_chunk: Reg64 = 32 + 8,
        /// First chunk freed.
        first_heap_chunk: Reg64 = 40 + 8,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// 32-bit addition of an immediate.
    AddImm32 = 16 "ADD_IMMEDIATE32" " {dst}, {src}, #{imm:i}" {
        /// Destination.
        dst: Reg32 = 48 + 8,
        /// Source.
        src: Reg32 = 40 + 8,
        /// Addend.
        imm: i32 = 0 + 32,
    }
    /// 64-bit addition of a sign-extended immediate.
    AddImm64 = 17 "ADD_IMMEDIATE64" " {dst}, {src}, #{imm:i}" {
        /// Destination pair.
        dst: Reg64 = 48 + 8,
        /// Source pair.
        src: Reg64 = 40 + 8,
        /// Addend, sign-extended.
        imm: i32 = 0 + 32,
    }
    /// The smaller of two unsigned 32-bit registers.
    Umin32 = 18 "UMIN32" " {dst}, {src1}, {src0}" {
        /// Destination.
        dst: Reg32 = 48 + 8,
        /// First source.
        src0: Reg32 = 40 + 8,
        /// Second source.
        src1: Reg32 = 32 + 8,
    }
    /// Loads the registers of the mask from consecutive words; completion signals the "other" scoreboard entry.
    /// Bit `i` of the mask loads register `base + i` from `address + offset + 4 * i`.
    LoadMultiple = 20 "LOAD_MULTIPLE" " {base&mask}, {address@offset}" {
        /// First register of the mask.
        base: Reg32 = 48 + 8,
        /// Registers to load.
        mask: u16 = 16 + 16,
        /// Address.
        address: Reg64 = 40 + 8,
        /// Bytes added to the address.
        offset: i16 = 0 + 16,
    }
    /// Stores the registers of the mask to consecutive words; completion signals the "other" scoreboard entry.
    StoreMultiple = 21 "STORE_MULTIPLE" " {address@offset}, {base&mask}" {
        /// First register of the mask.
        base: Reg32 = 48 + 8,
        /// Registers to store.
        mask: u16 = 16 + 16,
        /// Address.
        address: Reg64 = 40 + 8,
        /// Bytes added to the address.
        offset: i16 = 0 + 16,
    }
    /// Jumps by instructions, relative to the one after the branch, if a register compares so with zero (signed).
    Branch = 22 "BRANCH" ".{condition} {value}, #{offset:i}" {
        /// Comparison.
        condition: Condition = 28 + 3,
        /// Register compared with zero.
        value: Reg32 = 40 + 8,
        /// Instructions to skip, counted from the next one.
        offset: i16 = 0 + 16,
    }
    /// Selects the scoreboard entries that jobs and loads and stores use from here on.
    SetSbEntry = 23 "SET_SB_ENTRY" " #{endpoint:u}, #{other:u}" {
        /// Entry for jobs on endpoints (RUN_*).
        endpoint: u8 = 0 + 4,
        /// Entry for loads and stores of the stream.
        other: u8 = 4 + 4,
    }
    /// Waits until another queue's progress counter reaches a value. Not printed by Mesa: the text is ours.
    ProgressWait = 24 "PROGRESS_WAIT" " {src}, #{queue:u}" {
        /// Queue of the group.
        queue: u8 = 0 + 5,
        /// Value to reach.
        src: Reg64 = 40 + 8,
    }
    /// Sets the stream that runs when an exception is raised.
    SetExceptionHandler = 25 "SET_EXCEPTION_HANDLER" "{exception_type:d} {address}, {length}" {
        /// The exception.
        exception_type: ExceptionType = 0 + 8,
        /// Bytes of the handler.
        length: Reg32 = 32 + 8,
        /// Address of the handler.
        address: Reg64 = 40 + 8,
    }
    /// Runs another stream and comes back.
    Call = 32 "CALL" " {address}, {length}" {
        /// Bytes of the stream.
        length: Reg32 = 32 + 8,
        /// Address of the stream.
        address: Reg64 = 40 + 8,
    }
    /// Goes on in another stream, within the same call frame.
    Jump = 33 "JUMP" " {address}, {length}" {
        /// Bytes of the stream.
        length: Reg32 = 32 + 8,
        /// Address of the stream.
        address: Reg64 = 40 + 8,
    }
    /// Asks for the iterators that later RUN_* instructions use.
    ReqResource = 34 "REQ_RESOURCE" "{compute:+compute}{fragment:+fragment}{tiler:+tiler}{idvs:+idvs}" {
        /// The compute iterator.
        compute: bool = 0 + 1,
        /// The fragment iterator.
        fragment: bool = 1 + 1,
        /// The tiler.
        tiler: bool = 2 + 1,
        /// Index-driven vertex shading.
        idvs: bool = 3 + 1,
    }
    /// Cleans and invalidates caches; always asynchronous.
    FlushCache2 = 36 "FLUSH_CACHE2" ".{l2}_l2.{lsc}_lsc.{other} {latest_flush_id}, #{wait_mask:x}, #{signal_slot:u}" {
        /// The GPU's L2.
        l2: FlushMode = 0 + 4,
        /// The load-store caches of the shader cores.
        lsc: FlushMode = 4 + 4,
        /// The other caches.
        other: OtherFlushMode = 8 + 4,
        /// Scoreboard entries to wait for before flushing.
        wait_mask: u16 = 16 + 16,
        /// Register with the flush number that the caller has seen: hardware may skip a flush that has happened since.
        latest_flush_id: Reg32 = 40 + 8,
        /// Scoreboard entry signalled when done.
        signal_slot: u8 = 48 + 4,
    }
    /// Adds a register to the 32-bit sync object and wakes waiters. The status word behind it tells of errors.
    SyncAdd32 = 37 "SYNC_ADD32" "{error_propagate:+error_propagate}.{scope} [{address}], {data}, #{wait_mask:x}, #{signal_slot:u}" {
        /// Writes the queue's error state behind the value.
        error_propagate: bool = 0 + 1,
        /// Who must see it.
        scope: SyncScope = 1 + 2,
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// Addend.
        data: Reg32 = 32 + 8,
        /// Address of the sync object.
        address: Reg64 = 40 + 8,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// Sets the 32-bit sync object and wakes waiters.
    SyncSet32 = 38 "SYNC_SET32" "{error_propagate:+error_propagate}.{scope} [{address}], {data}, #{wait_mask:x}, #{signal_slot:u}" {
        /// Writes the queue's error state behind the value.
        error_propagate: bool = 0 + 1,
        /// Who must see it.
        scope: SyncScope = 1 + 2,
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// Value.
        data: Reg32 = 32 + 8,
        /// Address of the sync object.
        address: Reg64 = 40 + 8,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// Blocks the stream until the 32-bit sync object compares so with a register.
    SyncWait32 = 39 "SYNC_WAIT32" ".{condition}{error_reject:R} {address}, {data}" {
        /// Ignores an error of the sync object instead of inheriting it.
        error_reject: bool = 0 + 1,
        /// Comparison of the object with the register.
        condition: Condition = 28 + 4,
        /// Value compared with.
        data: Reg32 = 32 + 8,
        /// Address of the sync object.
        address: Reg64 = 40 + 8,
    }
    /// Writes a counter or the error state to memory.
    StoreState = 40 "STORE_STATE" ".{state} {address}, #{offset:i}, #{wait_mask:x}, #{signal_slot:u}" {
        /// Bytes added to the address.
        offset: i16 = 0 + 16,
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// What is written.
        state: State = 32 + 2,
        /// Address.
        address: Reg64 = 40 + 8,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// Runs the next instructions in protected mode.
    ProtRegion = 41 "PROT_REGION" " #{size:u}" {
        /// Bytes of the region.
        size: Bytes8 = 0 + 16,
    }
    /// Sets the queue's progress counter. Not printed by Mesa: the text is ours.
    ProgressStore = 42 "PROGRESS_STORE" " {src}" {
        /// Value.
        src: Reg64 = 40 + 8,
    }
    /// Reads the queue's progress counter. Not printed by Mesa: the text is ours.
    ProgressLoad = 43 "PROGRESS_LOAD" " {dst}" {
        /// Destination.
        dst: Reg64 = 48 + 8,
    }
    /// Starts a compute job whose task size hardware chooses along the axes.
    RunComputeIndirect = 44 "RUN_COMPUTE_INDIRECT"
        ".srt{srt:u}.spd{spd:u}.tsd{tsd:u}.fau{fau:u}{progress_increment:+progress_inc} #{workgroups_per_task:u}" {
        /// Workgroups per task; 0 is undefined.
        workgroups_per_task: u16 = 0 + 16,
        /// Increments the queue's progress counter when done.
        progress_increment: bool = 32 + 1,
        /// Which of the four shader resource table registers.
        srt: u8 = 40 + 2,
        /// Which of the four shader program descriptor registers.
        spd: u8 = 42 + 2,
        /// Which of the four local storage descriptor registers.
        tsd: u8 = 44 + 2,
        /// Which of the four FAU registers.
        fau: u8 = 46 + 2,
    }
    /// Ends the reach of an error: what failed before does not stop what comes after.
    ErrorBarrier = 47 "ERROR_BARRIER" "" {}
    /// Sets the tiler heap of the queue.
    HeapSet = 48 "HEAP_SET" " {address}" {
        /// Address of the heap context.
        address: Reg64 = 40 + 8,
    }
    /// Increments a counter of the tiler heap.
    HeapOp = 49 "HEAP_OPERATION" ".{operation} #{wait_mask:x}, #{signal_slot:u}" {
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// Which counter.
        operation: HeapOperation = 32 + 2,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// Writes registers to the queue's trace buffer.
    TracePoint = 50 "TRACE_POINT" " {base..count}, #{wait_mask:x}, #{signal_slot:u}" {
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// First register.
        base: Reg32 = 32 + 8,
        /// Registers to write.
        count: u8 = 40 + 8,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// Adds a register pair to the 64-bit sync object and wakes waiters. The status word behind it tells of errors.
    SyncAdd64 = 51 "SYNC_ADD64" "{error_propagate:+error_propagate}.{scope} [{address}], {data}, #{wait_mask:x}, #{signal_slot:u}" {
        /// Writes the queue's error state behind the value.
        error_propagate: bool = 0 + 1,
        /// Who must see it.
        scope: SyncScope = 1 + 2,
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// Addend.
        data: Reg64 = 32 + 8,
        /// Address of the sync object.
        address: Reg64 = 40 + 8,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// Sets the 64-bit sync object and wakes waiters.
    SyncSet64 = 52 "SYNC_SET64" "{error_propagate:+error_propagate}.{scope} [{address}], {data}, #{wait_mask:x}, #{signal_slot:u}" {
        /// Writes the queue's error state behind the value.
        error_propagate: bool = 0 + 1,
        /// Who must see it.
        scope: SyncScope = 1 + 2,
        /// Scoreboard entries to wait for first; 0 makes the instruction synchronous.
        wait_mask: u16 = 16 + 16,
        /// Value.
        data: Reg64 = 32 + 8,
        /// Address of the sync object.
        address: Reg64 = 40 + 8,
        /// Scoreboard entry signalled.
        signal_slot: u8 = 48 + 4,
    }
    /// Blocks the stream until the 64-bit sync object compares so with a register pair.
    SyncWait64 = 53 "SYNC_WAIT64" ".{condition}{error_reject:R} {address}, {data}" {
        /// Ignores an error of the sync object instead of inheriting it.
        error_reject: bool = 0 + 1,
        /// Comparison of the object with the register.
        condition: Condition = 28 + 4,
        /// Value compared with.
        data: Reg64 = 32 + 8,
        /// Address of the sync object.
        address: Reg64 = 40 + 8,
    }
}
