//! `gemm`: products of models and synthetic ones.

mod common;

use common::{command, json, panthorctl, refused};
use panthor_engine::gguf::Builder;
use panthor_engine::quant::{Format, Spread, synthetic_matrix};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A model file in a folder of its own.
struct ModelFile {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl ModelFile {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, bytes).expect("a file");
        Self {
            _folder: folder,
            path,
        }
    }

    fn all(&self) -> String {
        format!(
            "--device sim --json gemm --all --m 2 --model {}",
            self.path.display()
        )
    }
}

/// A model of two matrices and a vector.
fn small_model() -> Vec<u8> {
    let matrix =
        |format, n, k| synthetic_matrix(format, n, k, 7, Spread::Normal).expect("a matrix");
    Builder::new()
        .text("general.architecture", "llama")
        .matrix("a.weight", &matrix(Format::Q4_1, 17, 64).as_matrix())
        .zeros("norm.weight", &[64], Format::F32.ggml_type())
        .matrix("b.weight", &matrix(Format::Q6_K, 5, 256).as_matrix())
        .build()
}

#[test]
fn every_format_is_right_and_exact_whatever_the_seed() {
    for (i, format) in Format::ALL.into_iter().enumerate() {
        let k = 2 * format.block_elements().max(32);
        let seed = i as u64 * 0x9e37_79b9;
        let report = json(&format!(
            "--device sim:seed={seed} --json gemm --quant {format} --m 3 --n 19 --k {k} --seed {i}"
        ));
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!(row["tensor"], "synthetic");
        assert_eq!(row["quant"], format.name());
        assert_eq!(
            [&row["m"], &row["n"], &row["k"]].map(|v| v.as_u64()),
            [Some(3), Some(19), Some(k as u64)]
        );
        assert_eq!(row["macs"], 3 * 19 * k);
        assert_eq!(
            (&row["ok"], &row["exact"]),
            (&true.into(), &true.into()),
            "{row}"
        );
        assert!(row["nmse"].as_f64().is_some_and(|e| e <= 5e-4), "{row}");
        assert!(row["wall_ms"].as_f64() > Some(0.0), "{row}");
        assert!(row["cycles"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn a_model_has_a_row_for_each_matrix() {
    let model = ModelFile::new(&small_model());
    let report = json(&model.all());
    let names: Vec<_> = report["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|r| &r["tensor"])
        .collect();
    assert_eq!(names, ["a.weight", "b.weight"]);
    let table = panthorctl(&format!(
        "--device sim gemm --model {} --tensor b.weight --m 1",
        model.path.display()
    ));
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    assert!(
        table.stdout.contains("1×5×256") && table.stdout.contains("right"),
        "{}",
        table.stdout
    );
    assert!(
        table.stdout.ends_with(" s\n") && table.stdout.contains("1 products: 1 right, 1 exact")
    );
}

#[test]
fn kernels_page_sizes_and_address_spaces_make_no_difference() {
    for device in [
        "sim:kernel=6.12",
        "sim:page_size=65536",
        "sim:va_bits=32",
        "sim:cores=1,gpu_mhz=0.2",
    ] {
        let report = json(&format!(
            "--device {device} --json gemm --quant q4_0 --m 2 --n 5 --k 64"
        ));
        assert_eq!(report["rows"][0]["exact"], true, "{device}");
    }
}

#[test]
fn a_wrong_name_or_no_matrix_is_a_bad_model() {
    let model = ModelFile::new(&small_model());
    for (name, words) in [
        ("a", ["has no tensor \"a\"", "did you mean \"a.weight\""]),
        ("c.weight", ["has no tensor \"c.weight\"", "--all"]),
        (
            "norm.weight",
            ["\"norm.weight\" is no matrix", "two dimensions"],
        ),
    ] {
        let gemm = format!(
            "--device sim gemm --model {} --tensor {name}",
            model.path.display()
        );
        refused(command(&gemm), 6, &words);
    }
    let neither = format!("--device sim gemm --model {}", model.path.display());
    refused(command(&neither), 2, &["--tensor NAME", "--all"]);
}

#[test]
fn a_truncated_model_is_refused_at_every_cut() {
    let whole = small_model();
    for cut in [0, 3, 8, 23, 24, 60, 150, whole.len() / 2, whole.len() - 1] {
        let model = ModelFile::new(&whole[..cut]);
        refused(command(&model.all()), 6, &["model.gguf", "fetch it again"]);
    }
}

#[test]
fn a_hostile_model_is_refused_by_name() {
    type Change<'a> = &'a dyn Fn(&mut Builder);
    let hostile = |change: Change<'_>| {
        let mut builder = Builder::new();
        change(&mut builder);
        ModelFile::new(&builder.build())
    };
    let cases: [(Change<'_>, [&str; 2]); 9] = [
        (
            &|b| b.tensor_count = Some(1 << 63),
            ["9223372036854775808 tensors", "damaged"],
        ),
        (
            &|b| b.metadata_count = Some(u64::MAX),
            ["metadata entries", "damaged"],
        ),
        (&|b| b.version = 9, ["version 9", "convert"]),
        (
            &|b| {
                b.entry("w", &[1 << 63, 1 << 63], 2, 0);
            },
            ["\"w\"", "elements"],
        ),
        (
            &|b| {
                b.entry("w", &[33, 8], 2, 0);
            },
            ["\"w\"", "multiple of the 32"],
        ),
        (
            &|b| {
                b.entry("w", &[64, 8], 2, u64::MAX - 31);
            },
            ["\"w\"", "offset"],
        ),
        (
            &|b| {
                b.tensor("w", &[64, 8], 99, &[0; 512]);
            },
            ["\"w\" has type number 99", "newer"],
        ),
        (
            &|b| {
                b.zeros("w", &[256, 8], 10);
            },
            ["\"w\" is Q2_K", "llama-quantize"],
        ),
        (
            &|b| {
                b.zeros("a", &[64, 8], 2).entry("b", &[64, 2], 2, 32);
            },
            ["\"a\" and \"b\" overlap", "damaged"],
        ),
    ];
    for (change, words) in cases {
        refused(command(&hostile(change).all()), 6, &words);
    }
    // A name steers no terminal, and no kernel's label.
    let mut builder = Builder::new();
    builder.zeros("w\n\u{1b}[31m\0", &[64, 8], 2);
    let model = ModelFile::new(&builder.build());
    let table = panthorctl(&format!(
        "--device sim gemm --all --m 1 --model {}",
        model.path.display()
    ));
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    assert!(
        table.stdout.contains(r"w\n\u{1b}[31m\u{0}"),
        "{}",
        table.stdout
    );
}

#[test]
fn what_is_no_file_is_no_model() {
    for path in ["/nonexistent.gguf", "/dev/zero", "/"] {
        refused(
            command(&format!("--device sim gemm --all --model {path}")),
            6,
            &[path],
        );
    }
}

#[test]
fn impossible_shapes_are_usage_errors_and_take_no_memory() {
    for (arguments, words) in [
        ("--quant q4_0 --m 0 --n 1 --k 32", ["--m", "0 is not in"]),
        ("--quant q4_0 --n 1", ["--k", "--help"]),
        ("--quant q2_k --n 1 --k 256", ["\"q2_k\"", "q4_0"]),
        (
            "--quant q4_0 --n 1 --k 33",
            ["K = 33", "multiple of the 32"],
        ),
        (
            "--quant q4_k --n 1 --k 32",
            ["K = 32", "multiple of the 256"],
        ),
        (
            "--quant q4_0 --m 4294967295 --n 1 --k 32",
            ["M", "too large"],
        ),
        ("--quant q4_0 --n 4294967295 --k 32", ["N", "too large"]),
        ("--quant q4_0 --n 1 --k 4294967264", ["K", "too large"]),
        (
            "--quant f32 --n 500000 --k 12000",
            ["weights", "smaller shape"],
        ),
        (
            "--quant f32 --m 4294967295 --n 4294967295 --k 4294967295",
            ["4294967295", "large"],
        ),
        (
            "--quant q4_0 --n 1 --k 32 --all",
            ["--all", "cannot be used with"],
        ),
        ("", ["--quant", "--help"]),
    ] {
        refused(
            command(&format!("--device sim gemm {arguments}")),
            2,
            &words,
        );
    }
}

#[test]
fn memory_that_is_not_there_is_named() {
    let gemm = "--device sim:memory=1 gemm --quant q4_0 --m 1 --n 1024 --k 4096";
    refused(command(gemm), 3, &["synthetic", "ENOMEM", "use a smaller"]);
}

#[test]
fn a_job_that_the_driver_kills_exits_with_5() {
    let gemm = "--device sim:job_timeout_ms=1,gpu_mhz=1 gemm --quant q4_0 --m 64 --n 77 --k 1024";
    refused(command(gemm), 5, &["synthetic", "TIMEDOUT", "run again"]);
}

#[test]
fn an_interrupt_ends_it_in_order() {
    let matrix = synthetic_matrix(Format::Q4_0, 2048, 2048, 1, Spread::Normal).expect("a matrix");
    let mut builder = Builder::new();
    for i in 0..40 {
        builder.matrix(&format!("layer {i}"), &matrix.as_matrix());
    }
    let model = ModelFile::new(&builder.build());
    // The log tells when the first product is on the device.
    let mut child = command(&model.all())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    std::thread::sleep(Duration::from_millis(1500));
    let pid = i32::try_from(child.id()).expect("a process id");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGINT,
    )
    .expect("a signal");
    let begin = Instant::now();
    while child.try_wait().expect("its status").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it hangs");
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran: common::Ran = child.wait_with_output().expect("its output").into();
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(130), ""),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.starts_with("panthorctl: interrupted"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 1);
}
