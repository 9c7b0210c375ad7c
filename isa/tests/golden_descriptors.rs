//! Descriptor words that were worked out from Mesa's `genxml/v10.xml` by somebody who did not see this crate, and those
//! of panvk's own jobs: each unpacks to the fields that stand beside it and packs back to itself.

use std::collections::BTreeMap;

use mali_isa::desc::{
    AddressMode, Buffer, BufferType, Fau, FlushToZero, LocalStorage, RegisterAllocation, Resource,
    ShaderProgram, Srt, Stage, WorkgroupSize,
};

const DESCRIPTORS: &str = include_str!("../../tests/golden/csf/descriptors.txt");

/// One line of the file: kind, words, and what they mean.
struct Golden {
    kind: &'static str,
    words: Vec<u32>,
    fields: BTreeMap<&'static str, &'static str>,
}

impl Golden {
    fn number(&self, field: &str) -> u64 {
        let text = self
            .fields
            .get(field)
            .unwrap_or_else(|| panic!("{} without {field}", self.kind));
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).expect("hexadecimal"),
            None => text.parse().expect("decimal"),
        }
    }

    fn flag(&self, field: &str) -> bool {
        self.fields[field] == "true"
    }

    fn eight(&self) -> [u32; 8] {
        self.words.clone().try_into().expect("eight words")
    }

    fn pair(&self) -> u64 {
        u64::from(self.words[1]) << 32 | u64::from(self.words[0])
    }
}

fn golden(kind: &str) -> Vec<Golden> {
    let all: Vec<_> = DESCRIPTORS
        .lines()
        .filter(|l| l.starts_with(kind))
        .map(|line| {
            let (head, fields) = line.split_once(" : ").expect("words : fields");
            let (kind, words) = head.split_once(' ').expect("a kind");
            Golden {
                kind,
                words: words
                    .split(' ')
                    .map(|w| u32::from_str_radix(w, 16).expect("eight hex digits"))
                    .collect(),
                fields: fields
                    .split_whitespace()
                    .filter_map(|f| f.split_once('='))
                    .collect(),
            }
        })
        .collect();
    assert!(all.len() >= 5, "{kind}: {}", all.len());
    all
}

/// `r55+r57`: bit n stands for register 48 + n.
fn preload(text: &str) -> u16 {
    let registers = text.split('+').filter_map(|r| r.strip_prefix('r'));
    registers
        .map(|r| 1 << (r.parse::<u16>().expect("a register") - 48))
        .sum()
}

#[test]
fn shader_programs() {
    for line in golden("SHADER_PROGRAM") {
        let program = ShaderProgram::unpack(&line.eight()).expect("valid");
        assert_eq!(program.pack(), Ok(line.eight()));
        assert_eq!(program.binary, line.number("binary"));
        assert_eq!(program.preload, preload(line.fields["preload"]));
        assert_eq!(program.suppress_nan, line.flag("suppress_nan"));
        assert_eq!(program.suppress_inf, line.flag("suppress_inf"));
        let flush = match line.fields["flush_to_zero_mode"] {
            "preserve_subnormals" => FlushToZero::Preserve,
            "dx11" => FlushToZero::Dx11,
            "always" => FlushToZero::Always,
            "abrupt" => FlushToZero::Abrupt,
            other => panic!("{other}"),
        };
        assert_eq!(program.flush_to_zero, flush);
        let registers = match line.fields["register_allocation"] {
            "64_per_thread" => RegisterAllocation::PerThread64,
            "32_per_thread" => RegisterAllocation::PerThread32,
            other => panic!("{other}"),
        };
        assert_eq!(program.registers, registers);
        assert_eq!(
            program.stage == Stage::Compute,
            line.fields["stage"] == "compute"
        );
    }
}

#[test]
fn local_storage() {
    for line in golden("LOCAL_STORAGE") {
        let storage = LocalStorage::unpack(&line.eight()).expect("valid");
        assert_eq!(storage.pack(), Ok(line.eight()));
        assert_eq!(u64::from(storage.tls_size), line.number("tls_size"));
        assert_eq!(storage.tls_base, line.number("tls_base_pointer"));
        let mode = match line.fields["tls_address_mode"] {
            "flat" => AddressMode::Flat,
            "packed" => AddressMode::Packed,
            "out_of_bounds" => AddressMode::OutOfBounds,
            other => panic!("{other}"),
        };
        assert_eq!(storage.tls_address_mode, mode);
        match storage.wls {
            None => assert_eq!(line.fields["wls_instances"], "no_workgroup_mem"),
            Some(wls) => {
                assert_eq!(1 << wls.instances_log2, line.number("wls_instances"));
                assert_eq!(u64::from(wls.size_scale), line.number("wls_size_scale"));
                assert_eq!(u64::from(wls.size_base), line.number("wls_size_base"));
                assert_eq!(wls.base, line.number("wls_base_pointer"));
            }
        }
    }
}

#[test]
fn buffers_and_resource_tables() {
    for line in golden("BUFFER") {
        let buffer = Buffer::unpack(&line.eight()).expect("valid");
        assert_eq!(buffer.pack(), line.eight());
        assert_eq!(buffer.address, line.number("address"));
        assert_eq!(u64::from(buffer.size), line.number("size"));
        assert_eq!(
            buffer.kind == BufferType::Simple,
            line.fields["buffer_type"] == "simple"
        );
    }
    for line in golden("RESOURCE") {
        let words: [u32; 4] = line.words.clone().try_into().expect("four words");
        if line.number("address") >> 48 != 0 {
            // v10.xml gives the field 56 bits, one of which is the flag's: more than 48 are refused.
            assert!(Resource::unpack(&words).is_err());
            continue;
        }
        let resource = Resource::unpack(&words).expect("valid");
        assert_eq!(resource.pack(), Ok(words));
        assert_eq!(resource.address, line.number("address"));
        assert_eq!(resource.size, line.number("size"));
        assert_eq!(
            resource.contains_descriptors,
            line.flag("contains_descriptors")
        );
    }
}

#[test]
fn register_words() {
    for line in golden("WORKGROUP_SIZE") {
        let size = WorkgroupSize::unpack(line.words[0]).expect("valid");
        assert_eq!(size.pack(), Ok(line.words[0]));
        let axes = [size.x, size.y, size.z].map(u64::from);
        assert_eq!(
            axes,
            ["x", "y", "z"].map(|a| line.number(&format!("workgroup_size_{a}")))
        );
        assert_eq!(size.allow_merging, line.flag("allow_merging_workgroups"));
    }
    for line in golden("FAU_REG") {
        let fau = Fau::unpack(line.pair()).expect("valid");
        assert_eq!(fau.pack(), Ok(line.pair()));
        assert_eq!(fau.pointer, line.number("address"));
        assert_eq!(u64::from(fau.count), line.number("count_64bit_words"));
    }
    for line in golden("SRT_REG") {
        let srt = Srt::unpack(line.pair());
        assert_eq!(srt.pack(), Ok(line.pair()));
        assert_eq!(srt.pointer, line.number("address"));
        assert_eq!(u64::from(srt.count), line.number("tables"));
    }
}
