//! `panthorctl disasm` and `asm`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use mali_isa::{csf, valhall};
use panthor_engine::kernel;

use crate::args::{AsmArgs, DisasmArgs, Isa};
use crate::failure::{Exit, Failure};
use crate::output::print_bytes;

/// Bytes of an instruction of either set.
const INSTR_BYTES: usize = 8;

/// No program is larger than this.
const MAX_INPUT: u64 = 64 << 20;

/// Prints instructions as text: eight bytes in memory order, then the text.
pub fn disasm(args: &DisasmArgs) -> Result<Exit, Failure> {
    let kernels = || kernel::all().map_err(|e| Failure::new(Exit::Wrong, e));
    if args.list_kernels {
        let names: String = kernels()?.iter().map(|k| format!("{}\n", k.name)).collect();
        return print_bytes(names.as_bytes()).map(|()| Exit::Right);
    }
    if let Some(name) = &args.kernel {
        let kernels = kernels()?;
        let Some(kernel) = kernels.iter().find(|k| k.name == *name) else {
            let names: Vec<_> = kernels.iter().map(|k| k.name).collect();
            let line = format!(
                "there is no kernel {name:?}; choose one of {}",
                names.join(", ")
            );
            return Err(Failure::new(Exit::Usage, line));
        };
        let mut bytes = Vec::new();
        for instr in &kernel.code {
            let word = instr
                .encode()
                .map_err(|e| Failure::new(Exit::Wrong, format_args!("{name}: {e}")))?;
            bytes.extend(word.to_le_bytes());
        }
        return print_bytes(listing(Isa::Valhall, &bytes).as_bytes()).map(|()| Exit::Right);
    }
    let bytes = match (&args.hex, &args.file) {
        (Some(hex), _) => from_hex(hex)?,
        (None, Some(file)) => read(file)?,
        (None, None) => {
            return Err(Failure::new(
                Exit::Usage,
                "name --hex BYTES, --kernel NAME or a file",
            ));
        }
    };
    if bytes.len() % INSTR_BYTES != 0 {
        let (exit, from) = match &args.file {
            Some(file) => (Exit::BadFile, file.display().to_string()),
            None => (Exit::Usage, "--hex".to_owned()),
        };
        let line = format!(
            "{from}: {} bytes are no whole number of {INSTR_BYTES}-byte instructions; check where they were cut",
            bytes.len()
        );
        return Err(Failure::new(exit, line));
    }
    let isa = args
        .isa
        .ok_or_else(|| Failure::new(Exit::Usage, "name the instruction set with --isa"))?;
    print_bytes(listing(isa, &bytes).as_bytes()).map(|()| Exit::Right)
}

/// Turns text into bytes.
pub fn asm(args: &AsmArgs) -> Result<Exit, Failure> {
    let bytes = read(&args.file)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::new(
            Exit::BadFile,
            format_args!("{}: not UTF-8 text", args.file.display()),
        )
    })?;
    let bad = |e: &dyn std::fmt::Display| {
        Failure::new(Exit::BadFile, format_args!("{}: {e}", args.file.display()))
    };
    let bytes: Vec<u8> = match args.isa {
        Isa::Valhall => {
            let words = valhall::assemble_program(&text).map_err(|e| bad(&e))?;
            words.iter().flat_map(|w| w.to_le_bytes()).collect()
        }
        Isa::Csf => csf::assemble_program(&text).map_err(|e| bad(&e))?,
    };
    if args.hex {
        let lines: String = bytes
            .chunks(INSTR_BYTES)
            .map(|c| format!("{}\n", hex(c)))
            .collect();
        print_bytes(lines.as_bytes()).map(|()| Exit::Right)
    } else {
        print_bytes(&bytes).map(|()| Exit::Right)
    }
}

/// One line an instruction: bytes, then text.
fn listing(isa: Isa, bytes: &[u8]) -> String {
    let text: Vec<String> = match isa {
        Isa::Valhall => valhall::disassemble(bytes, 0)
            .map(|line| line.to_string())
            .collect(),
        Isa::Csf => bytes
            .chunks(INSTR_BYTES)
            .map(|chunk| {
                let text = csf::disassemble(chunk).unwrap_or_else(|e| format!("<{e}>"));
                format!("{}    {}", hex(chunk), text.trim_end())
            })
            .collect(),
    };
    text.iter().map(|line| format!("{line}\n")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect::<Vec<_>>()
        .join(" ")
}

fn from_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let bad = || {
        Failure::new(
            Exit::Usage,
            format_args!("--hex {text:?}: want pairs of hexadecimal digits"),
        )
    };
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|d| d as u8).ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    if digits.len() % 2 != 0 {
        return Err(bad());
    }
    Ok(digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed =
        |e: io::Error| Failure::new(Exit::BadFile, format_args!("{}: {e}", path.display()));
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    let mut bytes = Vec::new();
    input
        .take(MAX_INPUT + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_INPUT {
        let line = format!("{}: larger than {} MiB", path.display(), MAX_INPUT >> 20);
        return Err(Failure::new(Exit::BadFile, line));
    }
    Ok(bytes)
}
