//! `panthorctl rig build|list|clean`, with a tree that is small enough and programs that only pretend to build it.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ran, command, refused};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What the kernel's build would run: each says nothing and succeeds.
const TOOLS: [&str; 8] = ["ld", "flex", "bison", "bc", "perl", "tar", "xz", "make"];

/// `make` as the builder calls it: configures as it is told to, and links a file.
const MAKE: &str = r#"#!/bin/sh
for word; do
    case $word in
        O=*) objects=${word#O=} ;;
        KCONFIG_ALLCONFIG=*) wanted=${word#*=} ;;
    esac
    target=$word
done
case $target in
    allnoconfig) /bin/cat "$wanted" > "$objects/.config"; echo CONFIG_EVENT_TRACING=y >> "$objects/.config" ;;
    linux) echo '  CC      init/main.o'; /bin/cat "$objects/.config" > "$objects/linux" ;;
esac
"#;

/// A machine with a cache, a kernel source tree and tools, all below one directory.
struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            directory: tempfile::tempdir().expect("temporary directory"),
        };
        machine.tool("gcc", "#!/bin/sh\necho 'gcc (Pretended) 14'\n");
        for tool in TOOLS {
            machine.tool(tool, "#!/bin/sh\n");
        }
        machine.tool("make", MAKE);
        machine.write(
            "Makefile",
            "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 9\nEXTRAVERSION =\n",
        );
        machine.write(
            "arch/um/Kconfig",
            "config SMP\n\tdepends on UML_SUBARCH_SUPPORTS_SMP\n",
        );
        machine.write("arch/um/drivers/Kconfig", "");
        machine.write("arch/um/drivers/Makefile", "");
        machine.write("arch/um/include/shared/os.h", "");
        machine.write(
            "arch/um/kernel/physmem.c",
            "#include <os.h>\nint phys_mapping(unsigned long phys)\n{\n\tif (phys < physmem_size) {\n\t}\n}\n",
        );
        machine.write(
            "arch/um/include/asm/irq.h",
            "#ifdef CONFIG_PCI_MSI\n#define NR_IRQS 128\n#endif\n",
        );
        machine.write("arch/x86/um/user-offsets.c", "");
        machine.write("drivers/gpu/drm/panthor/panthor_drv.c", "int x;\n");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn tool(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::create_dir_all(self.path("bin")).expect("directory");
        fs::write(&path, script).expect("tool");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path("tree").join(file);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("directory");
        fs::write(path, text).expect("file");
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = command(arguments);
        command
            .env("PATH", self.path("bin"))
            .env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    /// Builds the tree as `mine`.
    fn build(&self, more: &str) -> Command {
        let tree = self.path("tree");
        self.command(&format!(
            "rig build --source {} --name mine {more}",
            tree.display()
        ))
    }

    fn json(&self, mut command: Command) -> serde_json::Value {
        let ran: Ran = command
            .arg("--json")
            .output()
            .expect("the program runs")
            .into();
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    }

    /// Names in the rig's cache.
    fn cached(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("cache/panthorctl/rig")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|e| e.expect("entry").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    }

    /// Every file of the tree with its content.
    fn tree(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(directory: &Path, into: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(directory).expect("directory") {
                let path = entry.expect("entry").path();
                if path.is_dir() {
                    walk(&path, into);
                } else {
                    into.push((path.clone(), fs::read(&path).expect("file")));
                }
            }
        }
        let mut files = Vec::new();
        walk(&self.path("tree"), &mut files);
        files.sort();
        files
    }
}

#[test]
fn a_tree_is_built_once_listed_and_removed() {
    let machine = Machine::new();
    let before = machine.tree();
    let built = machine.json(machine.build(""));
    let kernel = &built["kernels"][0];
    assert_eq!(kernel["label"], "mine");
    assert_eq!(kernel["release"], "7.2.9");
    assert_eq!(kernel["cached"], false);
    assert_eq!(kernel["origin"]["kind"], "tree");
    assert_eq!(kernel["toolchain"], "gcc (Pretended) 14");
    assert_eq!(kernel["binaries"][0]["flavour"], "time-travel");
    assert_eq!(kernel["binaries"][1]["flavour"], "smp");
    let directory = PathBuf::from(kernel["directory"].as_str().expect("a path"));
    let config = |name: &str| fs::read_to_string(directory.join(name)).expect("binary");
    assert!(config("linux").contains("CONFIG_UML_TIME_TRAVEL_SUPPORT=y"));
    assert!(config("linux-smp").contains("CONFIG_SMP=y"));
    assert_eq!(machine.tree(), before, "the user's tree is not changed");

    let again = machine.json(machine.build(""));
    assert_eq!(again["kernels"][0]["cached"], true);
    assert_eq!(again["kernels"][0]["directory"], kernel["directory"]);

    // Another content is another kernel, and takes the place of the first.
    machine.write("drivers/gpu/drm/panthor/panthor_drv.c", "int y;\n");
    let changed = machine.json(machine.build(""));
    assert_eq!(changed["kernels"][0]["cached"], false);
    assert_ne!(changed["kernels"][0]["hash"], kernel["hash"]);
    let hash = changed["kernels"][0]["hash"].as_str().expect("a hash");
    assert_eq!(
        machine.cached(),
        [".lock".to_owned(), format!("mine-{hash}")]
    );

    let listed = machine.json(machine.command("rig list"));
    assert_eq!(listed["kernels"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["kernels"][0]["hash"], hash);
    let table: Ran = machine.command("rig list").output().expect("runs").into();
    assert!(
        table.stdout.contains("mine") && table.stdout.contains("7.2.9"),
        "{}",
        table.stdout
    );

    fs::write(machine.path("cache/panthorctl/rig/not-ours"), "kept").expect("file");
    let cleaned = machine.json(machine.command("rig clean mine"));
    assert_eq!(cleaned["kernels"][0], "mine");
    let _ = machine.json(machine.command("rig clean --all"));
    assert_eq!(machine.cached(), ["not-ours"]);
    refused(
        machine.command("rig clean mine"),
        2,
        &["no rig kernel is called mine"],
    );
}

#[test]
fn a_version_without_several_cpus_has_one_binary() {
    let machine = Machine::new();
    machine.write("arch/um/Kconfig", "config UML\n");
    let built = machine.json(machine.build(""));
    let kernel = &built["kernels"][0];
    assert_eq!(kernel["binaries"].as_array().map(Vec::len), Some(1));
    assert_eq!(kernel["smp_unavailable"], true);
    assert_eq!(
        machine.json(machine.build(""))["kernels"][0]["cached"],
        true
    );
}

#[test]
fn a_kernel_built_without_smp_gets_it_when_asked() {
    let machine = Machine::new();
    let number =
        |value: serde_json::Value| value["kernels"][0]["binaries"].as_array().map(Vec::len);
    // What is there already is not compiled again.
    let path = machine.path("made");
    let counting = format!("linux) echo x >> {};", path.display());
    machine.tool("make", &MAKE.replace("linux)", &counting));
    let made = || fs::read_to_string(&path).expect("made").lines().count();
    assert_eq!(number(machine.json(machine.build("--no-smp"))), Some(1));
    assert_eq!(made(), 1);
    assert_eq!(number(machine.json(machine.build(""))), Some(2));
    assert_eq!(made(), 2);
    assert_eq!(number(machine.json(machine.build("--force"))), Some(2));
    assert_eq!(made(), 4);
    assert_eq!(machine.cached().len(), 2, "one kernel and the lock");
}

#[test]
fn what_is_missing_is_named_with_its_packages() {
    let machine = Machine::new();
    for tool in ["gcc", "flex", "xz"] {
        fs::remove_file(machine.path("bin").join(tool)).expect("remove");
    }
    let words = ["needs gcc, flex, xz;", "apt install gcc flex xz-utils"];
    refused(machine.command("rig build"), 3, &words);
    let ran: Ran = machine.build("").output().expect("runs").into();
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        words.iter().all(|word| ran.stderr.contains(word)),
        "{}",
        ran.stderr
    );
    assert_eq!(machine.cached(), [] as [&str; 0]);
}

#[test]
fn trees_that_cannot_be_built_are_refused_before_anything_is_done() {
    let machine = Machine::new();
    machine.write(
        "Makefile",
        "VERSION = 6\nPATCHLEVEL = 6\nSUBLEVEL = 1\nEXTRAVERSION =\n",
    );
    refused(
        machine.build(""),
        6,
        &["Linux 6.6.1 is not supported", "6.12 to 7.x"],
    );

    machine.write(
        "Makefile",
        "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n",
    );
    fs::remove_file(machine.path("tree/drivers/gpu/drm/panthor/panthor_drv.c")).expect("remove");
    refused(machine.build(""), 6, &["(Linux 6.12.1) has no panthor"]);

    fs::remove_dir_all(machine.path("tree")).expect("remove");
    refused(
        machine.build(""),
        6,
        &["is no kernel source tree", "Makefile"],
    );
    assert_eq!(machine.cached(), [] as [&str; 0]);
}

#[test]
fn a_tree_that_the_bridge_does_not_fit_is_told_which_hunk_and_what_to_do() {
    let machine = Machine::new();
    machine.write("arch/um/kernel/physmem.c", "#include <os.h>\n");
    let words = [
        "Linux 7.2.9 does not take the bridge",
        "hunk physmem-user-page",
        "`int phys_mapping(` not found in arch/um/kernel/physmem.c",
        "in your tree, and build again",
    ];
    let ran: Ran = machine.build("").output().expect("runs").into();
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    let last = ran.stderr.lines().last().expect("a line");
    for word in words {
        assert!(last.contains(word), "{word}: {last}");
    }
    assert_eq!(machine.cached(), [".lock"]);
}

#[test]
fn a_build_that_fails_leaves_its_log_and_says_what_was_wrong() {
    let machine = Machine::new();
    let failing = MAKE.replace(
        "linux) ",
        "linux) echo 'init/x.c:1:2: error: no good'; exit 2; ",
    );
    machine.tool("make", &failing);
    let ran: Ran = machine.build("").output().expect("runs").into();
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    let last = ran.stderr.lines().last().expect("a line");
    assert!(last.contains("make linux of Linux 7.2.9 failed (exit code 2): init/x.c:1:2: error: no good; all of it: "), "{last}");
    assert_eq!(machine.cached(), [".lock", "mine-build.log"]);
    let log = fs::read_to_string(machine.path("cache/panthorctl/rig/mine-build.log")).expect("log");
    assert!(log.contains("error: no good"));

    // An option that the tree does not know.
    machine.tool("make", &MAKE.replace("echo CONFIG_EVENT_TRACING=y", "echo"));
    let ran: Ran = machine.build("").output().expect("runs").into();
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("CONFIG_EVENT_TRACING cannot be set"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_interrupted_build_leaves_neither_files_nor_processes() {
    let machine = Machine::new();
    let pid_file = machine.path("make.pid");
    let script = format!(
        "#!/bin/sh\necho $$ > {0}.new; /bin/mv {0}.new {0}; while :; do /bin/sleep 0.1; done\n",
        pid_file.display()
    );
    machine.tool("make", &script);
    let child = machine
        .build("")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let until = Instant::now() + Duration::from_secs(60);
    while !pid_file.exists() {
        assert!(Instant::now() < until, "make was not called");
        std::thread::sleep(Duration::from_millis(20));
    }
    let make: i32 = fs::read_to_string(&pid_file)
        .expect("pid")
        .trim()
        .parse()
        .expect("a number");
    let pid = i32::try_from(child.id()).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("signal");
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("interrupted; nothing is left of the build"),
        "{}",
        ran.stderr
    );
    assert_eq!(machine.cached(), [".lock"]);
    assert!(kill(Pid::from_raw(make), None).is_err(), "make still runs");
}

#[test]
fn of_two_builds_at_a_time_one_builds_and_the_other_takes_it() {
    let machine = Machine::new();
    machine.tool(
        "make",
        &MAKE.replace("for word;", "/bin/sleep 0.3; for word;"),
    );
    let start = || {
        let mut command = machine.build("--json");
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("runs")
    };
    let children = [start(), start()];
    let mut cached: Vec<bool> = children
        .into_iter()
        .map(|child| {
            let ran: Ran = child.wait_with_output().expect("it ends").into();
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let value: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
            value["kernels"][0]["cached"].as_bool().expect("a boolean")
        })
        .collect();
    cached.sort_unstable();
    assert_eq!(cached, [false, true]);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    refused(
        command("rig build --kernel 5.10"),
        2,
        &["5.10", "6.12, 7.2, 7.3"],
    );
    refused(command("rig build --source /tmp"), 2, &["--name"]);
    refused(command("rig build --name x"), 2, &["--source"]);
    refused(
        command("rig build --kernel 7.2 --source /tmp --name x"),
        2,
        &["--kernel"],
    );
    refused(
        command("rig build --variant fast"),
        2,
        &["plain, debug, gcov"],
    );
    refused(command("rig build --jobs 0"), 2, &["0"]);
    let machine = Machine::new();
    refused(
        machine.command("rig build --source . --name ../up"),
        2,
        &["kernel name \"../up\""],
    );
    let mut homeless = command("rig list");
    homeless.env_remove("XDG_CACHE_HOME").env_remove("HOME");
    refused(homeless, 2, &["XDG_CACHE_HOME"]);
}
