//! Every struct size, field offset, request number and flag against the kernel's own headers.
//!
//! `PANTHOR_UAPI_HEADERS` is a colon-separated list of include directories that hold `drm/panthor_drm.h`
//! (`scripts/kernel-header` fetches two). For each a C program is compiled that prints what the header says. Without the
//! variable, or without a C compiler, the committed table `tests/golden/uapi/layout.txt` serves, which was printed by
//! such a program from the newest header; `PANTHOR_UAPI_WRITE_TABLE=1` prints it anew from the last directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use panthor_uapi::sys::layout;

/// What one header says: a line per fact. `struct NAME SIZE`, `field STRUCT.NAME OFFSET SIZE`, `request NAME VALUE`,
/// `constant NAME VALUE`; a fact that the header lacks is not there.
type Table = BTreeMap<String, Vec<u64>>;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/uapi/layout.txt")
}

/// A field's name in C.
fn c_name(name: &str) -> &str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// What this crate says, in the same form.
fn ours() -> Table {
    let mut table = Table::new();
    for s in layout::structs() {
        table.insert(format!("struct {}", s.name), vec![s.size as u64]);
        for f in s.fields.iter().filter(|f| f.name != "_padding") {
            table.insert(
                format!("field {}.{}", s.name, c_name(f.name)),
                vec![f.offset as u64, f.size as u64],
            );
        }
    }
    for r in layout::requests() {
        table.insert(format!("request {}", r.name), vec![r.value]);
    }
    for c in layout::constants() {
        table.insert(format!("constant {}", c.name), vec![c.value]);
    }
    table
}

fn parse(text: &str) -> Table {
    let mut table = Table::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let values = words[2..]
            .iter()
            .map(|word| word.parse().expect("a number"))
            .collect();
        table.insert(format!("{} {}", words[0], words[1]), values);
    }
    table
}

/// The headers' text without comments.
fn header_text(include: &Path) -> String {
    let mut text = String::new();
    for name in ["drm/panthor_drm.h", "drm/drm.h", "linux/sync_file.h"] {
        let mut rest =
            &*std::fs::read_to_string(include.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        while let Some((code, comment)) = rest.split_once("/*") {
            text.push_str(code);
            rest = comment.split_once("*/").map_or("", |(_, code)| code);
        }
        text.push_str(rest);
    }
    text
}

/// The body of `struct name { … }`.
fn body<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("struct {name} {{"))?;
    Some(rest.split_once("};")?.0)
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect()
}

/// A C program that prints every fact that the header has.
fn program(text: &str) -> String {
    let known = words(text);
    let mut c = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <fcntl.h>\n#include <drm/panthor_drm.h>\n\
         #include <linux/sync_file.h>\n#define U(x) ((unsigned long long)(x))\nint main(void) {\n",
    );
    for s in layout::structs() {
        let Some(body) = body(text, s.name) else {
            continue;
        };
        let present = words(body);
        let name = s.name;
        writeln!(
            c,
            "printf(\"struct {name} %zu\\n\", sizeof(struct {name}));"
        )
        .unwrap();
        for f in s
            .fields
            .iter()
            .map(|f| c_name(f.name))
            .filter(|f| present.contains(f))
        {
            writeln!(
                c,
                "printf(\"field {name}.{f} %zu %zu\\n\", offsetof(struct {name}, {f}), sizeof(((struct {name} *)0)->{f}));"
            )
            .unwrap();
        }
        // A field of the header's that this crate lacks would be a hole: the C side counts them.
        writeln!(
            c,
            "printf(\"fields {name} {}\\n\");",
            body.matches(';').count()
        )
        .unwrap();
    }
    for r in layout::requests()
        .map(|r| r.name)
        .filter(|name| known.contains(name))
    {
        writeln!(c, "printf(\"request {r} %u\\n\", (unsigned)({r}));").unwrap();
    }
    for k in layout::constants() {
        let name = k.name;
        if known.contains(name) {
            // Enumerators with bit 31 are negative in C: the kernel's fields are 32 bits wide.
            let cast = if k.value >> 32 == 0 { "(unsigned)" } else { "" };
            writeln!(c, "printf(\"constant {name} %llu\\n\", U({cast}({name})));").unwrap();
        }
    }
    c.push_str("return 0; }\n");
    c
}

/// Compiles and runs the program for one include directory; `None` without a C compiler.
fn header_says(include: &Path) -> Option<String> {
    let dir =
        std::env::temp_dir().join(format!("panthor-layout-{}-{}", std::process::id(), line!()));
    std::fs::create_dir_all(&dir).unwrap();
    let (source, binary) = (dir.join("layout.c"), dir.join("layout"));
    std::fs::write(&source, program(&header_text(include))).unwrap();
    // The kernel tree's own include/uapi (not installed headers) needs the kernel's build around it, but its drm/ and
    // linux/sync_file.h alone are usable: the rest then comes from the system.
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(&cc)
        .arg("-D__user=")
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output();
    let output = match built {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{cc}: {error}"),
        Ok(built) => {
            assert!(
                built.status.success(),
                "{cc}: {}",
                String::from_utf8_lossy(&built.stderr)
            );
            let run = Command::new(&binary).output().unwrap();
            assert!(run.status.success());
            Some(String::from_utf8(run.stdout).unwrap())
        }
    };
    std::fs::remove_dir_all(&dir).unwrap();
    output
}

/// Removes the size from a request number.
fn without_size(request: u64) -> u64 {
    request & !(0x3fff << 16)
}

/// Compares this crate with what a header says; returns what the header lacks.
fn compare(what: &str, theirs: &Table) -> Vec<String> {
    let ours = ours();
    let mut lacks = Vec::new();
    let mut wrong = Vec::new();
    let size = |table: &Table, name: &str| table.get(&format!("struct {name}")).map(|size| size[0]);
    for (fact, value) in &ours {
        match theirs.get(fact) {
            None => lacks.push(fact.clone()),
            Some(said) if said == value => {}
            Some(said) => {
                // An older header's struct may end earlier (its request number then says so too), never later.
                let shorter = fact.starts_with("struct ") && said[0] < value[0];
                let number = fact.starts_with("request ")
                    && without_size(said[0]) == without_size(value[0])
                    && said[0] < value[0];
                if shorter || number {
                    lacks.push(format!("{fact}: {} there, {} here", said[0], value[0]));
                } else {
                    wrong.push(format!("{fact}: {said:?} there, {value:?} here"));
                }
            }
        }
    }
    // A struct as long as the header's must have every field of the header's.
    for s in layout::structs() {
        if let Some(count) = theirs.get(&format!("fields {}", s.name)) {
            let here = s.fields.iter().filter(|f| f.name != "_padding").count() as u64;
            let same = size(theirs, s.name) == size(&ours, s.name);
            if count[0] > here || same && count[0] < here {
                wrong.push(format!(
                    "struct {}: {} fields there, {here} here",
                    s.name, count[0]
                ));
            }
        }
    }
    // A shorter struct or number there must come from a field or flag that is missing there.
    for s in layout::structs() {
        if size(theirs, s.name) < size(&ours, s.name)
            && theirs.contains_key(&format!("struct {}", s.name))
        {
            let prefix = format!("field {}.", s.name);
            assert!(
                lacks.iter().any(|fact| fact.starts_with(&prefix)),
                "{what}: struct {} is shorter without reason",
                s.name
            );
        }
    }
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    lacks
}

/// The include directories to compare with.
fn headers() -> Vec<PathBuf> {
    let list = std::env::var_os("PANTHOR_UAPI_HEADERS").unwrap_or_default();
    std::env::split_paths(&list)
        .filter(|path| !path.as_os_str().is_empty())
        .collect()
}

#[test]
fn layouts_match_the_kernel_headers() {
    let headers = headers();
    if headers.is_empty() {
        eprintln!(
            "layout: PANTHOR_UAPI_HEADERS is not set: compared with the committed table only"
        );
    }
    for include in &headers {
        let what = include.display().to_string();
        let Some(text) = header_says(include) else {
            eprintln!("layout: no C compiler: {what} not compared, the committed table only");
            continue;
        };
        let table = parse(&text);
        let lacks = compare(&what, &table);
        eprintln!(
            "layout: {what}: {} facts compared, {} lacking there",
            table.len(),
            lacks.len()
        );
        for fact in &lacks {
            eprintln!("layout:   lacks {fact}");
        }
        // Even the oldest kernel with panthor has these, so that an empty header cannot pass.
        for fact in [
            "struct drm_panthor_group_submit",
            "request DRM_IOCTL_PANTHOR_VM_BIND",
            "struct drm_syncobj_wait",
        ] {
            assert!(table.contains_key(fact), "{what} has no {fact}");
        }
        if include == headers.last().unwrap()
            && std::env::var_os("PANTHOR_UAPI_WRITE_TABLE").is_some()
        {
            assert!(
                lacks.is_empty(),
                "the table must come from a header that has everything: {lacks:?}"
            );
            let head = "# What the kernel's headers say on a 64-bit machine, printed by the program of\n\
                        # panthor-uapi/tests/layout.rs: struct NAME SIZE; field STRUCT.NAME OFFSET SIZE;\n\
                        # fields STRUCT COUNT; request NAME NUMBER; constant NAME VALUE.\n";
            std::fs::write(golden(), format!("{head}{text}")).unwrap();
        }
    }
}

#[test]
#[cfg(all(
    target_pointer_width = "64",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
fn layouts_match_the_committed_table() {
    let text = std::fs::read_to_string(golden()).unwrap();
    let table = parse(&text);
    assert!(table.len() > 250, "the table is cut: {} facts", table.len());
    let lacks = compare("the committed table", &table);
    assert_eq!(
        lacks,
        Vec::<String>::new(),
        "the committed table is older than this crate"
    );
}

#[test]
fn a_wrong_offset_is_found() {
    let mut table = ours();
    table.insert("field drm_panthor_vm_bind_op.va".to_owned(), vec![24, 8]);
    let found = std::panic::catch_unwind(|| compare("a header with another offset", &table));
    let message = *found.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("drm_panthor_vm_bind_op.va"), "{message}");
}
