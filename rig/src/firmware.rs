//! The firmware image that panthor loads: sections to map, and no code, since the model does not execute Arm
//! instructions.
//!
//! Format and limits are those that `panthor_fw.c` reads: `panthor_fw_load`, `panthor_fw_load_section_entry`.

/// Where panthor looks for the image of a GPU of architecture 10.8 (Mali-G610), below a firmware directory
/// (`panthor_fw.c`: `arm/mali/arch%d.%d/mali_csffw.bin`).
pub const PATH: &str = "arm/mali/arch10.8/mali_csffw.bin";

/// `CSF_FW_BINARY_HEADER_MAGIC`.
const MAGIC: u32 = 0xc3f1_3a6e;
/// Version of the image's format; the driver takes major 0 only.
const FORMAT_MAJOR: u8 = 0;
const FORMAT_MINOR: u8 = 1;
/// `struct panthor_fw_binary_hdr`.
const HEADER_BYTES: usize = 20;

/// `CSF_FW_BINARY_ENTRY_TYPE_IFACE`: a section.
const ENTRY_SECTION: u32 = 0;

/// Flags of a section: `CSF_FW_BINARY_IFACE_ENTRY_*`.
mod flag {
    /// The firmware reads it.
    pub const READ: u32 = 1;
    /// The firmware writes it.
    pub const WRITE: u32 = 1 << 1;
    /// The firmware executes it.
    pub const EXECUTE: u32 = 1 << 2;
    /// Cached; without, not.
    pub const CACHED: u32 = 1 << 3;
    /// The driver maps it too.
    pub const SHARED: u32 = 1 << 30;
    /// Filled with zeros where the image has no data for it.
    pub const ZERO: u32 = 1 << 31;
}

/// Where the section with the interfaces must be (`CSF_MCU_SHARED_REGION_START`).
pub const SHARED_START: u32 = 0x0400_0000;
/// Its end: 512 KiB, of which the model's interfaces take less (it says where they are in the global control block).
pub const SHARED_END: u32 = 0x0408_0000;
/// Where the section stands that code would be in.
const CODE_START: u32 = 0;
const CODE_END: u32 = 0x1000;

/// The image.
pub fn image() -> Vec<u8> {
    let mut sections = section(
        flag::SHARED | flag::ZERO | flag::READ | flag::WRITE,
        SHARED_START..SHARED_END,
        b"shared",
    );
    sections.extend(section(
        flag::READ | flag::EXECUTE | flag::CACHED | flag::ZERO,
        CODE_START..CODE_END,
        b"code",
    ));
    let size = HEADER_BYTES + sections.len();
    let mut image = Vec::with_capacity(size);
    image.extend(MAGIC.to_le_bytes());
    image.extend([FORMAT_MINOR, FORMAT_MAJOR, 0, 0]);
    // The hash of the firmware's version: there is none to name.
    image.extend([0; 8]);
    image.extend((size as u32).to_le_bytes());
    image.extend(sections);
    image
}

/// An entry for a section without data: `struct panthor_fw_binary_section_entry_hdr` and its name.
fn section(flags: u32, addresses: std::ops::Range<u32>, name: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [flags, addresses.start, addresses.end, 0, 0] {
        body.extend(word.to_le_bytes());
    }
    body.extend(name);
    // Entries are whole words; the name ends with a zero.
    body.resize((body.len() / 4 + 1) * 4, 0);
    let size = (4 + body.len()) as u32;
    let mut entry = (ENTRY_SECTION | size << 8).to_le_bytes().to_vec();
    entry.extend(body);
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the driver makes of a section.
    #[derive(Debug, PartialEq, Eq)]
    struct Section {
        flags: u32,
        start: u32,
        end: u32,
        name: String,
    }

    /// Reads as `panthor_fw_load` does, with its checks, each in its words.
    fn load(image: &[u8]) -> Result<Vec<Section>, &'static str> {
        let word = |data: &[u8], at: usize| -> Result<u32, &'static str> {
            let bytes = data.get(at..at + 4).ok_or("Firmware truncated")?;
            Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
        };
        if word(image, 0)? != 0xc3f1_3a6e {
            return Err("Invalid firmware magic");
        }
        if image.get(5) != Some(&0) {
            return Err("Unsupported firmware binary header version");
        }
        let size = word(image, 16)? as usize;
        if size > image.len() {
            return Err("Firmware image is truncated");
        }
        let mut sections = Vec::new();
        let mut at = 20;
        while at < size {
            let entry = word(image, at)?;
            let entry_bytes = (entry >> 8 & 0xff) as usize;
            if at % 4 != 0 || entry_bytes % 4 != 0 {
                return Err("Firmware entry is not 32-bit aligned");
            }
            if entry_bytes < 4 {
                return Err("Firmware entry too small");
            }
            let body = image
                .get(at + 4..at + entry_bytes)
                .ok_or("Firmware entry too long")?;
            at += entry_bytes;
            if entry & 0xff != 0 {
                return Err("an entry that is no section");
            }
            let [flags, start, end, data_start, data_end] =
                [0, 4, 8, 12, 16].map(|offset| word(body, offset).expect("a section's words"));
            if end < start || data_end < data_start || data_end as usize > image.len() {
                return Err("Firmware corrupted");
            }
            // The page size of the firmware's VM: 4 KiB.
            if start % 4096 != 0 || end % 4096 != 0 {
                return Err("Firmware corrupted, virtual addresses not page aligned");
            }
            if flags & !0xc000_003f != 0 {
                return Err("Firmware contains interface with unsupported flags");
            }
            if start == 0x0400_0000 && flags & 1 << 30 == 0 {
                return Err("Interface must be shared");
            }
            let name = body[20..]
                .iter()
                .take_while(|b| **b != 0)
                .map(|b| char::from(*b));
            sections.push(Section {
                flags,
                start,
                end,
                name: name.collect(),
            });
        }
        if !sections.iter().any(|s| s.start == 0x0400_0000) {
            return Err("Shared interface region not found");
        }
        Ok(sections)
    }

    #[test]
    fn the_driver_finds_the_shared_section_and_one_for_code() {
        let sections = load(&image()).expect("the driver takes it");
        assert_eq!(
            sections,
            [
                Section {
                    flags: 0xc000_0003,
                    start: 0x0400_0000,
                    end: 0x0408_0000,
                    name: "shared".to_owned(),
                },
                Section {
                    flags: 0x8000_000d,
                    start: 0,
                    end: 0x1000,
                    name: "code".to_owned(),
                },
            ]
        );
    }

    #[test]
    fn the_reader_refuses_what_the_driver_refuses() {
        let good = image();
        let with = |at: usize, byte: u8| {
            let mut image = good.clone();
            image[at] = byte;
            load(&image)
        };
        assert_eq!(with(0, 0), Err("Invalid firmware magic"));
        assert_eq!(
            with(5, 1),
            Err("Unsupported firmware binary header version")
        );
        assert_eq!(
            load(&good[..good.len() - 4]),
            Err("Firmware image is truncated")
        );
        // Without the shared flag; the address one byte off; another type of entry.
        assert_eq!(with(27, 0x80), Err("Interface must be shared"));
        assert_eq!(
            with(28, 1),
            Err("Firmware corrupted, virtual addresses not page aligned")
        );
        assert_eq!(with(20, 1), Err("an entry that is no section"));
    }
}
