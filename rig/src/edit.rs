//! The few changes to files that a kernel already has; everything else of the bridge is files of its own.
//!
//! A change hangs on a line of the file (its *anchor*), wherever that line has moved to, and says by name what was
//! expected where it is missing. Changes that are there already are left alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a tree cannot take the bridge.
#[derive(Debug, Error)]
pub enum EditError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The tree lacks what a change hangs on.
    #[error("hunk {hunk}: expected `{expected}` {} in {file}; {remedy}", if *.found == 0 { "not found".to_owned() } else { format!("found {found} times, not once,") })]
    DoesNotFit {
        /// The change's name.
        hunk: &'static str,
        /// The line that was looked for.
        expected: &'static str,
        /// How often it was found.
        found: usize,
        /// The file, relative to the tree.
        file: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
}

/// A change to one file.
struct Hunk {
    name: &'static str,
    file: &'static str,
    /// The change is only needed where the file has this.
    only_if: Option<&'static str>,
    /// Where this stands in the file the change has been made.
    done: &'static str,
    action: Action,
    remedy: &'static str,
}

enum Action {
    /// A line at the end.
    Append(&'static str),
    /// A line after the last that begins with the anchor.
    AfterLast {
        anchor: &'static str,
        line: &'static str,
    },
    /// Lines before the first that equals `anchor` after the one that begins with `scope`.
    Before {
        scope: &'static str,
        anchor: &'static str,
        lines: &'static str,
    },
    /// Another line instead of the only one that equals `anchor`.
    Replace {
        anchor: &'static str,
        line: &'static str,
    },
}

/// In 6.12 the space for a process' floating-point state is fixed, at less than a CPU with AMX needs (it then fails to
/// start with "failed to get FP registers"); later versions ask the host.
const FIXED_FP: &str = "DEFINE_LONGS(HOST_FP_SIZE, 2696);";

const HUNKS: [Hunk; 6] = [
    Hunk {
        name: "kconfig",
        file: "arch/um/drivers/Kconfig",
        only_if: None,
        done: "source \"arch/um/drivers/Kconfig.mali\"",
        action: Action::Append("source \"arch/um/drivers/Kconfig.mali\""),
        remedy: "",
    },
    Hunk {
        name: "makefile",
        file: "arch/um/drivers/Makefile",
        only_if: None,
        done: "mali_bridge.o",
        action: Action::Append("obj-$(CONFIG_UML_MALI) += mali_bridge.o"),
        remedy: "",
    },
    Hunk {
        name: "physmem-include",
        file: "arch/um/kernel/physmem.c",
        only_if: None,
        done: "#include <mali_bridge.h>",
        action: Action::AfterLast {
            anchor: "#include <",
            line: "#include <mali_bridge.h>",
        },
        remedy: "add `#include <mali_bridge.h>` to the file that has phys_mapping() and to your tree, and build again",
    },
    Hunk {
        name: "physmem-user-page",
        file: "arch/um/kernel/physmem.c",
        only_if: None,
        done: "mali_bridge_user_page(",
        action: Action::Before {
            scope: "int phys_mapping(",
            anchor: "if (phys < physmem_size) {",
            lines: "\tif (mali_bridge_user_page(phys, offset_out))\n\t\treturn physmem_fd;\n\n",
        },
        remedy: "make phys_mapping() begin with `if (mali_bridge_user_page(phys, offset_out)) return physmem_fd;` in your tree, and build again",
    },
    Hunk {
        name: "interrupt-numbers",
        file: "arch/um/include/asm/irq.h",
        only_if: Some("#define NR_IRQS"),
        done: "CONFIG_UML_MALI",
        action: Action::Replace {
            anchor: "#ifdef CONFIG_PCI_MSI",
            line: "#if defined(CONFIG_PCI_MSI) || defined(CONFIG_UML_MALI)",
        },
        remedy: "make NR_IRQS at least UM_LAST_SIGNAL_IRQ + 64 `#ifdef CONFIG_UML_MALI` in your tree, and build again",
    },
    Hunk {
        name: "fp-size",
        file: "arch/x86/um/user-offsets.c",
        only_if: Some(FIXED_FP),
        done: "DEFINE_LONGS(HOST_FP_SIZE, 12288);",
        action: Action::Replace {
            anchor: FIXED_FP,
            line: "\tDEFINE_LONGS(HOST_FP_SIZE, 12288);",
        },
        remedy: "make HOST_FP_SIZE 12288 bytes in your tree, and build again",
    },
];

/// The bridge's own files: where they belong in a tree, and what is in them.
pub const FILES: [(&str, &str); 3] = [
    (
        "arch/um/drivers/mali_bridge.c",
        include_str!("../kernel/files/arch/um/drivers/mali_bridge.c"),
    ),
    (
        "arch/um/drivers/Kconfig.mali",
        include_str!("../kernel/files/arch/um/drivers/Kconfig.mali"),
    ),
    (
        "arch/um/include/shared/mali_bridge.h",
        include_str!("../kernel/files/arch/um/include/shared/mali_bridge.h"),
    ),
];

/// Whether processes' floating-point state has a fixed size in this tree, and so lies on the kernel's stack, which
/// must then be larger. Read before or after [`apply`].
pub fn has_fixed_fp_size(tree: &Path) -> bool {
    fs::read_to_string(tree.join("arch/x86/um/user-offsets.c")).is_ok_and(|text| {
        text.contains("DEFINE_LONGS(HOST_FP_SIZE, 2696)")
            || text.contains("DEFINE_LONGS(HOST_FP_SIZE, 12288)")
    })
}

/// Puts the bridge into a tree. All changes are tried before any is made.
///
/// # Errors
/// [`EditError::DoesNotFit`] with the first change that has no place; [`EditError::Io`].
pub fn apply(tree: &Path) -> Result<(), EditError> {
    let mut texts: Vec<(&'static str, String)> = Vec::new();
    for hunk in &HUNKS {
        let at = match texts.iter().position(|(file, _)| *file == hunk.file) {
            Some(at) => at,
            None => {
                let path = tree.join(hunk.file);
                let text =
                    fs::read_to_string(&path).map_err(|source| EditError::Io { path, source })?;
                texts.push((hunk.file, text));
                texts.len() - 1
            }
        };
        if let Some(changed) = hunk.changed(&texts[at].1)? {
            texts[at].1 = changed;
        }
    }
    let texts = texts.iter().map(|(file, text)| (*file, text.as_str()));
    for (file, text) in texts.chain(FILES) {
        let path = tree.join(file);
        // Not written in place: the file may be a link to somebody's own.
        let io = |source| EditError::Io {
            path: path.clone(),
            source,
        };
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
            _ => {}
        }
        fs::write(&path, text).map_err(io)?;
    }
    Ok(())
}

/// What the bridge's files and changes are, for a digest.
pub(crate) fn content() -> impl Iterator<Item = &'static str> {
    let hunks = HUNKS.iter().flat_map(|hunk| {
        let (a, b, c) = match hunk.action {
            Action::Append(line) => (line, "", ""),
            Action::AfterLast { anchor, line } | Action::Replace { anchor, line } => {
                (anchor, line, "")
            }
            Action::Before {
                scope,
                anchor,
                lines,
            } => (scope, anchor, lines),
        };
        [hunk.file, a, b, c]
    });
    FILES
        .iter()
        .flat_map(|(file, text)| [*file, *text])
        .chain(hunks)
}

impl Hunk {
    /// The file's text after the change; none where it needs no change.
    fn changed(&self, text: &str) -> Result<Option<String>, EditError> {
        if text.contains(self.done) || self.only_if.is_some_and(|needed| !text.contains(needed)) {
            return Ok(None);
        }
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        let does_not_fit = |expected, found| EditError::DoesNotFit {
            hunk: self.name,
            expected,
            found,
            file: self.file,
            remedy: self.remedy,
        };
        let owned;
        match self.action {
            Action::Append(line) => {
                let newline = if text.is_empty() || text.ends_with('\n') {
                    ""
                } else {
                    "\n"
                };
                return Ok(Some(format!("{text}{newline}\n{line}\n")));
            }
            Action::AfterLast { anchor, line } => {
                let last = lines
                    .iter()
                    .rposition(|l| l.starts_with(anchor))
                    .ok_or_else(|| does_not_fit(anchor, 0))?;
                owned = format!("{line}\n");
                lines.insert(last + 1, &owned);
            }
            Action::Before {
                scope,
                anchor,
                lines: new,
            } => {
                let start = lines
                    .iter()
                    .position(|l| l.starts_with(scope))
                    .ok_or_else(|| does_not_fit(scope, 0))?;
                // A function ends where a line begins with a brace.
                let end = lines[start..]
                    .iter()
                    .position(|l| l.starts_with('}'))
                    .map_or(lines.len(), |n| start + n);
                let at = lines[start..end]
                    .iter()
                    .position(|l| l.trim() == anchor)
                    .ok_or_else(|| does_not_fit(anchor, 0))?;
                lines.insert(start + at, new);
            }
            Action::Replace { anchor, line } => {
                let found: Vec<usize> = (0..lines.len())
                    .filter(|&i| lines[i].trim() == anchor)
                    .collect();
                let [at] = found[..] else {
                    return Err(does_not_fit(anchor, found.len()));
                };
                owned = format!("{line}\n");
                lines[at] = &owned;
            }
        }
        Ok(Some(lines.concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHYSMEM: &str = "#include <linux/mm.h>\n#include <os.h>\n\nint other(void)\n{\n\tif (phys < physmem_size) {\n\t}\n}\n\nint phys_mapping(unsigned long phys, unsigned long long *offset_out)\n{\n\tint fd = -1;\n\n\tif (phys < physmem_size) {\n\t\tfd = physmem_fd;\n\t}\n\treturn fd;\n}\n";
    const IRQ: &str =
        "#ifdef CONFIG_PCI_MSI\n#define NR_IRQS\t128\n#else\n#define NR_IRQS\t64\n#endif\n";
    const OFFSETS: &str = "#ifdef FP_XSTATE_MAGIC1\n\tDEFINE_LONGS(HOST_FP_SIZE, 2696);\n#endif\n";

    /// A tree with what the changes hang on.
    fn tree(physmem: &str, irq: &str, offsets: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary directory");
        for (file, text) in [
            ("arch/um/drivers/Kconfig", "menu \"x\"\nendmenu"),
            ("arch/um/drivers/Makefile", "obj-y := a.o\n"),
            ("arch/um/kernel/physmem.c", physmem),
            ("arch/um/include/asm/irq.h", irq),
            ("arch/x86/um/user-offsets.c", offsets),
            ("arch/um/include/shared/os.h", ""),
        ] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("directory");
            fs::write(path, text).expect("file");
        }
        dir
    }

    fn read(tree: &Path, file: &str) -> String {
        fs::read_to_string(tree.join(file)).expect("file")
    }

    #[test]
    fn changes_go_to_their_places_and_only_once() {
        let dir = tree(PHYSMEM, IRQ, OFFSETS);
        apply(dir.path()).expect("fits");
        let once: Vec<String> = HUNKS.iter().map(|h| read(dir.path(), h.file)).collect();
        assert!(once[0].ends_with("endmenu\n\nsource \"arch/um/drivers/Kconfig.mali\"\n"));
        assert!(once[1].ends_with("obj-$(CONFIG_UML_MALI) += mali_bridge.o\n"));
        assert!(
            once[2]
                .starts_with("#include <linux/mm.h>\n#include <os.h>\n#include <mali_bridge.h>\n")
        );
        assert!(once[3].contains(
            "int fd = -1;\n\n\tif (mali_bridge_user_page(phys, offset_out))\n\t\treturn physmem_fd;\n\n\tif (phys < physmem_size) {\n\t\tfd"
        ));
        assert_eq!(once[3].matches("mali_bridge_user_page").count(), 1);
        assert!(once[4].starts_with("#if defined(CONFIG_PCI_MSI) || defined(CONFIG_UML_MALI)\n"));
        assert!(once[5].contains("HOST_FP_SIZE, 12288"));
        apply(dir.path()).expect("fits again");
        let twice: Vec<String> = HUNKS.iter().map(|h| read(dir.path(), h.file)).collect();
        assert_eq!(once, twice);
        assert_eq!(read(dir.path(), FILES[0].0), FILES[0].1);
    }

    #[test]
    fn a_tree_that_asks_the_host_for_the_size_of_its_fp_state_needs_no_change_there() {
        let dir = tree(PHYSMEM, IRQ, "host_fp_size\n");
        assert!(!has_fixed_fp_size(dir.path()));
        apply(dir.path()).expect("fits");
        assert_eq!(
            read(dir.path(), "arch/x86/um/user-offsets.c"),
            "host_fp_size\n"
        );
    }

    #[test]
    fn a_tree_that_does_not_fit_is_told_which_hunk_and_is_left_alone() {
        let moved = PHYSMEM.replace("int phys_mapping(", "long phys_mapping(");
        let dir = tree(&moved, IRQ, OFFSETS);
        let error = apply(dir.path()).expect_err("does not fit").to_string();
        assert!(
            error.starts_with("hunk physmem-user-page: expected `int phys_mapping(` not found in arch/um/kernel/physmem.c; make phys_mapping()"),
            "{error}"
        );
        assert_eq!(
            read(dir.path(), "arch/um/drivers/Makefile"),
            "obj-y := a.o\n"
        );
        assert!(!dir.path().join(FILES[0].0).exists());

        let dir = tree(PHYSMEM, &IRQ.repeat(2), OFFSETS);
        let error = apply(dir.path()).expect_err("does not fit").to_string();
        assert!(error.contains("hunk interrupt-numbers: expected `#ifdef CONFIG_PCI_MSI` found 2 times, not once, in"), "{error}");
    }

    #[test]
    fn a_file_that_is_a_link_elsewhere_is_replaced_and_not_written_through() {
        let dir = tree(PHYSMEM, IRQ, OFFSETS);
        let kept = dir.path().join("kept");
        fs::hard_link(dir.path().join("arch/um/drivers/Makefile"), &kept).expect("link");
        apply(dir.path()).expect("fits");
        assert_eq!(fs::read_to_string(kept).expect("file"), "obj-y := a.o\n");
    }
}
