use proptest::prelude::*;

use super::*;

#[test]
fn local_storage_as_panvk_writes_it() {
    // From a captured panvk job: 256 bytes of thread storage at no address, two workgroups of 16 KiB.
    let words = [4, 0x0f01, 0, 0x1000_0000, 0xff16_8000, 0, 0, 0];
    let wls = Wls {
        instances_log2: 1,
        size_base: 0,
        size_scale: 15,
        base: 0xff16_8000,
    };
    let storage = LocalStorage::unpack(&words).unwrap();
    assert_eq!(
        storage,
        LocalStorage {
            tls_size: 4,
            tls_address_mode: AddressMode::Packed,
            tls_base: 0,
            wls: Some(wls)
        }
    );
    assert_eq!(
        (wls.bytes(), storage.tls_bytes(), storage.tls_address()),
        (16384, 256, None)
    );
    assert_eq!(storage.pack().unwrap(), words);
    assert_eq!(
        LocalStorage::none().pack().unwrap(),
        [0, 0x1f, 0, 0, 0, 0, 0, 0]
    );
    let packed = LocalStorage {
        tls_address_mode: AddressMode::Packed,
        tls_base: 0x1234,
        ..LocalStorage::none()
    };
    assert_eq!(packed.tls_address(), Some(0x12_3400));
}

#[test]
fn shader_program_as_panvk_writes_it() {
    let words = [0x18, 0x0e80, 0xfff0_2000, 0, 0, 0, 0, 0];
    let spd = ShaderProgram::unpack(&words).unwrap();
    let expected = ShaderProgram::compute(0xfff0_2000, RegisterAllocation::PerThread64);
    assert_eq!(
        spd,
        ShaderProgram {
            preload: 0x0e80,
            ..expected
        }
    );
    assert_eq!(spd.pack().unwrap(), words);
    let small = ShaderProgram::compute(0x1000, RegisterAllocation::PerThread32)
        .pack()
        .unwrap();
    assert_eq!(small[0], 0x8000_0018);
}

#[test]
fn buffer_and_table_as_panvk_writes_them() {
    let words = [0x19, 0x0001_8000, 0xfffe_7800, 0x3fff, 0, 0, 0, 0];
    let buffer = Buffer::simple(0x3fff_fffe_7800, 0x18000);
    assert_eq!(Buffer::unpack(&words).unwrap(), buffer);
    assert_eq!(buffer.pack(), words);
    let table = Resource {
        address: 0xffc9_fe80,
        contains_descriptors: true,
        size: 384,
    };
    assert_eq!(table.pack().unwrap(), [0xffc9_fe80, 0x0100_0000, 384, 0]);
    assert_eq!(Resource::unpack(&table.pack().unwrap()).unwrap(), table);
}

#[test]
fn register_words() {
    let size = WorkgroupSize {
        x: 128,
        y: 1,
        z: 1,
        allow_merging: false,
    };
    assert_eq!(size.pack().unwrap(), 127);
    assert_eq!(
        WorkgroupSize {
            x: 1024,
            y: 2,
            z: 3,
            allow_merging: true
        }
        .pack()
        .unwrap(),
        0x8020_07ff
    );
    assert!(WorkgroupSize { x: 0, ..size }.pack().is_err());
    assert!(WorkgroupSize { x: 1025, ..size }.pack().is_err());
    assert!(WorkgroupSize::unpack(1 << 30).is_err());
    let fau = Fau {
        pointer: 0x3fff_0000_0040,
        count: 8,
    };
    assert_eq!(fau.pack().unwrap(), 0x0800_3fff_0000_0040);
    assert!(
        Fau {
            pointer: 4,
            count: 1
        }
        .pack()
        .is_err()
    );
    assert!(Fau::unpack(1 << 48).is_err());
    assert_eq!(
        Srt {
            pointer: 0xffc7_6040,
            count: 4
        }
        .pack()
        .unwrap(),
        0xffc7_6044
    );
    assert!(
        Srt {
            pointer: 32,
            count: 1
        }
        .pack()
        .is_err()
    );
    assert!(
        Srt {
            pointer: 64,
            count: 64
        }
        .pack()
        .is_err()
    );
}

#[test]
fn faulty_descriptors_have_named_errors() {
    assert!(matches!(
        ShaderProgram::unpack(&[9, 0, 0, 0, 0, 0, 0, 0]),
        Err(DescError::Type { found: 9, .. })
    ));
    let reserved = ShaderProgram::unpack(&[0x18, 0, 0, 0, 0, 0, 0, 1]);
    assert!(matches!(
        reserved,
        Err(DescError::ReservedBits {
            word: 7,
            bits: 1,
            ..
        })
    ));
    let registers = ShaderProgram::unpack(&[0x4000_0018, 0, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(
        registers,
        Err(DescError::Reserved {
            field: "register allocation",
            value: 1,
            ..
        })
    ));
    assert!(matches!(
        LocalStorage::unpack(&[0x20, 0x1f, 0, 0, 0, 0, 0, 0]),
        Err(DescError::ReservedBits { .. })
    ));
    assert!(matches!(
        LocalStorage::unpack(&[0, 0x11f, 0, 0, 0, 0, 0, 0]),
        Err(DescError::ReservedBits { .. })
    ));
    assert!(matches!(
        LocalStorage::unpack(&[0, 0x1f, 0, 0x2000_0000, 0, 0, 0, 0]),
        Err(DescError::Reserved { .. })
    ));
    assert!(matches!(
        Buffer::unpack(&[0x29, 0, 0, 0, 0, 0, 0, 0]),
        Err(DescError::Reserved { value: 2, .. })
    ));
}

proptest! {
    #[test]
    fn whatever_unpacks_packs_back(mut words: [u32; 8], kind in 0u32..16, clear: bool) {
        // Mostly reserved bits otherwise: with `clear`, only the named ones stay.
        if clear {
            words = std::array::from_fn(|i| if i > 3 { 0 } else { words[i] });
            words[0] = words[0] & 0xa00f_0000 | 1 << 4;
            words[1] &= 0x1f7f;
            words[3] &= 0x1000_ffff;
        }
        words[0] = words[0] & !15 | kind;
        if let Ok(spd) = ShaderProgram::unpack(&words) {
            prop_assert_eq!(spd.pack().unwrap(), words);
        }
        if let Ok(storage) = LocalStorage::unpack(&words) {
            prop_assert_eq!(storage.pack().unwrap(), words);
        }
        if let Ok(buffer) = Buffer::unpack(&words) {
            prop_assert_eq!(buffer.pack(), words);
        }
        prop_assert_eq!(from_bytes(&to_bytes(&words)), words);
    }

    #[test]
    fn register_words_round_trip(word: u32, wide: u64) {
        if let Ok(size) = WorkgroupSize::unpack(word) {
            prop_assert_eq!(size.pack().unwrap(), word);
            prop_assert!(size.threads() >= 1);
        }
        if let Ok(fau) = Fau::unpack(wide & 0xff00_ffff_ffff_fff8) {
            prop_assert_eq!(fau.pack().unwrap(), wide & 0xff00_ffff_ffff_fff8);
        }
        prop_assert_eq!(Srt::unpack(wide).pack().unwrap(), wide);
    }
}
