//! One whole submission, worked out from Mesa's public descriptions by somebody who did not see this crate: the words
//! of its streams decode to what stands beside them and come back from the named fields alone, its descriptors unpack
//! and pack, and the registers that the streams have set at RUN_COMPUTE are the ones listed.

use std::collections::BTreeMap;

use mali_isa::csf::{
    self, FlushMode, Instr, OtherFlushMode, Reg32, Reg64, STREAM_ALIGNMENT, TaskAxis,
};
use mali_isa::desc::{
    AddressMode, Buffer, BufferType, DESCRIPTOR_WORDS, Fau, FlushToZero, LocalStorage,
    RegisterAllocation, Resource, ShaderProgram, Srt, Stage, WorkgroupSize, compute_sr,
};

const SUBMISSION: &str = include_str!("../../tests/golden/csf/submission-3d.txt");

type Fields = BTreeMap<&'static str, &'static str>;

/// A word of a stream and what stands beside it.
struct Line {
    word: u64,
    mnemonic: &'static str,
    fields: Fields,
}

/// A stream: its name, its address, its words.
struct Stream {
    name: &'static str,
    address: u64,
    lines: Vec<Line>,
}

/// Words with their meaning, of memory or of registers.
struct Words {
    /// `@address` or the registers' names.
    place: &'static str,
    words: Vec<u32>,
    fields: Fields,
}

fn fields(text: &'static str) -> Fields {
    text.split_whitespace()
        .filter_map(|f| f.split_once('='))
        .collect()
}

fn hex(text: &str) -> u64 {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{text} is not hexadecimal"))
}

fn number(fields: &Fields, name: &str) -> u64 {
    let text = fields.get(name).unwrap_or_else(|| panic!("no {name}"));
    if text.starts_with("0x") {
        hex(text)
    } else {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    }
}

fn small<T: TryFrom<u64>>(fields: &Fields, name: &str) -> T {
    T::try_from(number(fields, name)).unwrap_or_else(|_| panic!("{name} is too large"))
}

fn flag(fields: &Fields, name: &str) -> bool {
    match fields[name] {
        "true" => true,
        "false" => false,
        other => panic!("{name}={other}"),
    }
}

/// Lines of the file with the section that they stand in.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut section = "";
    SUBMISSION
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .filter_map(move |line| {
            if line.starts_with('[') {
                section = line;
                None
            } else {
                Some((section, line))
            }
        })
}

fn streams() -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    for (section, line) in lines().filter(|(s, _)| s.starts_with("[stream-")) {
        let (name, place) = section[1..].split_once(']').expect("a section");
        if streams.last().is_none_or(|s| s.name != name) {
            let address = place.trim().strip_prefix('@').expect("an address");
            let (address, size) = address.split_once(',').expect("a size");
            assert_eq!(size, " 23 words, 184 bytes", "{name}");
            streams.push(Stream {
                name,
                address: hex(address),
                lines: Vec::new(),
            });
        }
        let code = line.split(';').next().unwrap_or(line);
        let (word, rest) = code.split_once(' ').expect("a word");
        let (mnemonic, rest) = rest.split_once(' ').expect("a mnemonic");
        let stream = streams.last_mut().expect("pushed above");
        stream.lines.push(Line {
            word: hex(word),
            mnemonic,
            fields: fields(rest),
        });
    }
    let names: Vec<_> = streams.iter().map(|s| (s.name, s.lines.len())).collect();
    assert_eq!(
        names,
        [
            ("stream-immediate", 23),
            ("stream-load", 23),
            ("stream-immediate-no-offset", 23)
        ]
    );
    streams
}

/// The words of one kind, in memory or registers.
fn words(section: &str, kind: &str) -> Words {
    let line = lines()
        .filter(|(s, _)| s.starts_with(section))
        .find_map(|(_, l)| l.strip_prefix(kind)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("no {kind}"));
    let (head, meaning) = line.split_once(" : ").expect("words : meaning");
    let mut parts = head.split(' ');
    Words {
        place: parts.next().expect("a place"),
        words: parts.map(|w| hex(w) as u32).collect(),
        fields: fields(meaning),
    }
}

fn memory(kind: &str) -> (u64, Words) {
    let words = words("[descriptors]", kind);
    let address = words.place.strip_prefix('@').expect("an address");
    (hex(address), words)
}

fn eight(words: &[u32]) -> [u32; DESCRIPTOR_WORDS] {
    words.try_into().expect("eight words")
}

/// The instruction that the mnemonic and the fields name, without a look at the word.
fn build(line: &Line) -> Instr {
    let f = &line.fields;
    let flush = |name| match f[name] {
        "none" => FlushMode::None,
        "clean" => FlushMode::Clean,
        "clean_and_invalidate" => FlushMode::CleanInvalidate,
        other => panic!("{name}={other}"),
    };
    match line.mnemonic {
        "REQ_RESOURCE" => Instr::ReqResource {
            compute: flag(f, "compute"),
            fragment: flag(f, "fragment"),
            tiler: flag(f, "tiler"),
            idvs: flag(f, "idvs"),
        },
        "MOVE32" => Instr::Move32 {
            dst: Reg32(small(f, "destination")),
            imm: small(f, "immediate"),
        },
        "MOVE48" => Instr::Move48 {
            dst: Reg64(small(f, "destination")),
            imm: number(f, "immediate"),
        },
        "WAIT" => Instr::Wait {
            wait_mask: small(f, "wait_mask"),
            progress_increment: flag(f, "progress_increment"),
        },
        "SET_SB_ENTRY" => Instr::SetSbEntry {
            endpoint: small(f, "endpoint_entry"),
            other: small(f, "other_entry"),
        },
        "FLUSH_CACHE2" => Instr::FlushCache2 {
            l2: flush("l2_flush_mode"),
            lsc: flush("lsc_flush_mode"),
            other: match f["other_flush_mode"] {
                "none" => OtherFlushMode::None,
                "invalidate" => OtherFlushMode::Invalidate,
                other => panic!("other_flush_mode={other}"),
            },
            wait_mask: small(f, "wait_mask"),
            latest_flush_id: Reg32(small(f, "latest_flush_id")),
            signal_slot: small(f, "signal_slot"),
        },
        "LOAD_MULTIPLE" => Instr::LoadMultiple {
            base: Reg32(small(f, "base_register")),
            mask: small(f, "mask"),
            address: Reg64(small(f, "address")),
            offset: small(f, "offset"),
        },
        "RUN_COMPUTE" => Instr::RunCompute {
            task_increment: small(f, "task_increment"),
            task_axis: match f["task_axis"] {
                "x" => TaskAxis::X,
                "y" => TaskAxis::Y,
                "z" => TaskAxis::Z,
                other => panic!("task_axis={other}"),
            },
            progress_increment: flag(f, "progress_increment"),
            srt: small(f, "srt_select"),
            spd: small(f, "spd_select"),
            tsd: small(f, "tsd_select"),
            fau: small(f, "fau_select"),
        },
        other => panic!("{other} is none of the submission's instructions"),
    }
}

#[test]
fn every_word_decodes_to_its_fields_and_comes_back_from_them() {
    let mut checked = 0;
    for stream in streams() {
        for line in &stream.lines {
            let named = build(line);
            let count = named.op().fields.len();
            assert_eq!(line.fields.len(), count, "{named}: a field is not named");
            assert_eq!(csf::decode(line.word), Ok(named), "{:016x}", line.word);
            assert_eq!(csf::encode(&named), Ok(line.word), "{named}");
            checked += 1;
        }
    }
    assert_eq!(checked, 69);
}

#[test]
fn a_stream_as_bytes_is_its_words_and_as_text_too() {
    for stream in streams() {
        assert_eq!(stream.address % STREAM_ALIGNMENT, 0, "{}", stream.name);
        let words: Vec<u64> = stream.lines.iter().map(|l| l.word).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let named: Vec<Instr> = stream.lines.iter().map(build).collect();
        assert_eq!(csf::decode_program(&bytes), Ok(named), "{}", stream.name);
        let text = csf::disassemble(&bytes).expect("decoded above");
        assert_eq!(text.lines().count(), words.len());
        assert_eq!(csf::assemble_program(&text), Ok(bytes), "{text}");
    }
}

#[test]
fn the_shader_program() {
    let (_, found) = memory("SHADER_PROGRAM");
    let f = &found.fields;
    let preload = f["preload"]
        .split('+')
        .map(|r| r.strip_prefix('r').expect("a register"))
        .map(|r| 1u16 << (r.parse::<u16>().expect("a number") - 48))
        .sum();
    assert_eq!(
        (f["type"], f["stage"], f["flush_to_zero_mode"]),
        ("shader", "compute", "preserve_subnormals")
    );
    assert_eq!(f["register_allocation"], "64_per_thread");
    let named = ShaderProgram {
        preload,
        suppress_nan: flag(f, "suppress_nan"),
        suppress_inf: flag(f, "suppress_inf"),
        requires_helper_threads: flag(f, "requires_helper_threads"),
        contains_jump_ex: flag(f, "shader_contains_jump_ex"),
        flush_to_zero: FlushToZero::Preserve,
        stage: Stage::Compute,
        ..ShaderProgram::compute(number(f, "binary"), RegisterAllocation::PerThread64)
    };
    assert_eq!(ShaderProgram::unpack(&eight(&found.words)), Ok(named));
    assert_eq!(named.pack(), Ok(eight(&found.words)));
}

#[test]
fn the_local_storage() {
    let (_, found) = memory("LOCAL_STORAGE");
    let f = &found.fields;
    assert_eq!(
        (f["wls_instances"], f["tls_address_mode"]),
        ("no_workgroup_mem", "packed")
    );
    let named = LocalStorage {
        tls_size: small(f, "tls_size"),
        tls_address_mode: AddressMode::Packed,
        tls_base: number(f, "tls_base_pointer"),
        wls: None,
    };
    assert_eq!(LocalStorage::unpack(&eight(&found.words)), Ok(named));
    assert_eq!(named.pack(), Ok(eight(&found.words)));
}

#[test]
fn the_resource_table_leads_to_the_buffer() {
    let (_, table) = memory("RESOURCE");
    let named = Resource {
        address: number(&table.fields, "address"),
        contains_descriptors: flag(&table.fields, "contains_descriptors"),
        size: number(&table.fields, "size"),
    };
    let words: [u32; 4] = table.words.as_slice().try_into().expect("four words");
    assert_eq!(Resource::unpack(&words), Ok(named));
    assert_eq!(named.pack(), Ok(words));

    let (address, found) = memory("BUFFER");
    let f = &found.fields;
    assert_eq!(address, named.address);
    assert_eq!((f["type"], f["buffer_type"]), ("buffer", "simple"));
    let buffer = Buffer::simple(number(f, "address"), small(f, "size"));
    assert_eq!(buffer.kind, BufferType::Simple);
    assert_eq!(Buffer::unpack(&eight(&found.words)), Ok(buffer));
    assert_eq!(buffer.pack(), eight(&found.words));
}

/// The registers that a stream has set when it reaches RUN_COMPUTE; loads read the sizes of the file.
fn registers_at_run(stream: &Stream) -> BTreeMap<u8, u32> {
    let (sizes_at, sizes) = memory("SIZES");
    let mut registers = BTreeMap::new();
    for line in &stream.lines {
        match csf::decode(line.word).expect("decodes") {
            Instr::Move32 { dst, imm } => {
                registers.insert(dst.0, imm);
            }
            Instr::Move48 { dst, imm } => {
                registers.insert(dst.low().0, imm as u32);
                registers.insert(dst.high().0, (imm >> 32) as u32);
            }
            Instr::LoadMultiple {
                base,
                mask,
                address,
                offset,
            } => {
                let [low, high] = [address.low(), address.high()].map(|r| registers[&r.0]);
                let va = u64::from(high) << 32 | u64::from(low);
                assert_eq!(va.wrapping_add_signed(offset.into()), sizes_at);
                assert_eq!(usize::from(mask), (1 << sizes.words.len()) - 1);
                for (n, word) in sizes.words.iter().enumerate() {
                    registers.insert(base.0 + n as u8, *word);
                }
            }
            Instr::RunCompute { .. } => return registers,
            _ => {}
        }
    }
    panic!("{} runs nothing", stream.name)
}

#[test]
fn the_streams_set_the_registers_that_are_listed() {
    let section = "[registers at RUN_COMPUTE]";
    let listed: Vec<Words> = [
        "SRT_REG",
        "FAU_REG",
        "WORKGROUP_SIZE",
        "JOB_OFFSET",
        "JOB_SIZE",
    ]
    .iter()
    .map(|kind| words(section, kind))
    .collect();
    for stream in streams() {
        let registers = registers_at_run(&stream);
        for found in &listed {
            for (name, word) in found.place.split(':').zip(&found.words) {
                let register: u8 = name[1..].parse().expect("a register");
                let offset = found.place == "r34:r35:r36";
                let word = match (offset, stream.name) {
                    (true, "stream-immediate-no-offset") => 0,
                    _ => *word,
                };
                assert_eq!(registers[&register], word, "{} {name}", stream.name);
            }
        }
        let pair =
            |r: Reg64| u64::from(registers[&r.high().0]) << 32 | u64::from(registers[&r.low().0]);
        // What the registers say, and that they lead to the descriptors.
        let (table, _) = memory("RESOURCE");
        let srt = Srt {
            pointer: number(&listed[0].fields, "address"),
            count: small(&listed[0].fields, "tables"),
        };
        assert_eq!(srt.pointer, table);
        assert_eq!(Srt::unpack(pair(compute_sr::srt(0))), srt);
        assert_eq!(srt.pack(), Ok(pair(compute_sr::srt(0))));
        let (uniforms, words) = memory("FAU");
        let fau = Fau {
            pointer: number(&listed[1].fields, "address"),
            count: small(&listed[1].fields, "count_64bit_words"),
        };
        assert_eq!(
            (fau.pointer, 2 * usize::from(fau.count)),
            (uniforms, words.words.len())
        );
        assert_eq!(Fau::unpack(pair(compute_sr::fau(0))), Ok(fau));
        assert_eq!(fau.pack(), Ok(pair(compute_sr::fau(0))));
        assert_eq!(pair(compute_sr::spd(0)), memory("SHADER_PROGRAM").0);
        assert_eq!(pair(compute_sr::tsd(0)), memory("LOCAL_STORAGE").0);
        assert_eq!(registers[&compute_sr::GLOBAL_ATTRIBUTE_OFFSET.0], 0);
        let axis = |a| small(&listed[2].fields, &format!("workgroup_size_{a}"));
        let size = WorkgroupSize {
            x: axis("x"),
            y: axis("y"),
            z: axis("z"),
            allow_merging: flag(&listed[2].fields, "allow_merging_workgroups"),
        };
        assert_eq!(size.pack(), Ok(registers[&compute_sr::WG_SIZE.0]));
        assert_eq!(compute_sr::JOB_OFFSET_X, Reg32(34));
        assert_eq!(compute_sr::JOB_SIZE_X, Reg32(37));
        for (n, axis) in ["x", "y", "z"].iter().enumerate() {
            let size = number(&listed[4].fields, axis);
            assert_eq!(u64::from(registers[&(37 + n as u8)]), size);
            assert_eq!(number(&listed[3].fields, axis), 1 + n as u64);
        }
    }
}
