//! `--device` and `info`.

mod common;

use common::{command, json, panthorctl, refused};
use std::os::unix::fs::PermissionsExt;

#[test]
fn info_tells_kind_driver_gpu_interface_and_features() {
    let report = json("--device sim --json info");
    assert_eq!(report["kind"], "simulator");
    assert_eq!(report["driver"]["name"], "panthor");
    assert_eq!(report["gpu"]["name"], "Mali-G610");
    assert_eq!(report["gpu"]["cores"], 4);
    assert!(report["csif"]["queues_per_group"].as_u64() >= Some(1));
    assert!(
        report["features"]
            .as_object()
            .is_some_and(|f| !f.is_empty())
    );
    assert!(report["missing"].is_array());
    let text = panthorctl("--device sim info");
    assert_eq!(text.code, Some(0));
    assert!(text.stdout.contains("Mali-G610"), "{}", text.stdout);
}

#[test]
fn the_simulated_kernel_decides_the_features() {
    let features = |kernel: &str| {
        let report = json(&format!("--device sim:kernel={kernel} --json info"));
        let features = report["features"].as_object().expect("features").clone();
        features.values().filter(|has| **has == true).count()
    };
    assert!(features("6.12") < features("7.3"));
}

#[test]
fn a_malformed_simulator_string_is_a_usage_error_that_names_what_is_allowed() {
    for (device, words) in [
        ("sim:cores", ["\"cores\"", "KEY=VALUE"]),
        ("sim:cores=0", ["cores=\"0\"", "1 to 16"]),
        ("sim:cores=99999999999999999999", ["cores=", "1 to 16"]),
        ("sim:kernel=6.13", ["\"6.13\"", "6.12, 7.2 or 7.3"]),
        ("sim:gpu_mhz=nan", ["\"nan\"", "0.001 to 100000"]),
        (
            "sim:page_size=1",
            ["page_size=\"1\"", "4096, 16384 or 65536"],
        ),
        ("sim:seed=-1", ["\"-1\"", "18446744073709551615"]),
        ("sim:frequency=3", ["\"frequency\"", "gpu_mhz"]),
    ] {
        refused(command(&format!("--device {device} info")), 2, &words);
    }
}

#[test]
fn what_is_no_device_exits_with_3_and_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"no device").expect("a file");
    let file = file.display().to_string();
    for (path, words) in [
        (
            "/nonexistent/renderD128",
            ["/nonexistent/renderD128", "panthor module"],
        ),
        (&*file, [&*file, "/dev/dri/renderD*"]),
        ("/", ["/: no device node", "sim"]),
        ("/dev/null", ["/dev/null", "not a DRM device"]),
    ] {
        refused(command(&format!("--device {path} info")), 3, &words);
        let gemm = format!("--device {path} gemm --quant q4_0 --m 1 --n 1 --k 32");
        refused(command(&gemm), 3, &words);
    }
    let mut empty = command("info");
    empty.args(["--device", ""]);
    refused(empty, 2, &["--device is empty"]);
}

#[test]
fn a_model_without_permission_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, b"GGUF").expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).expect("mode 000");
    if std::fs::File::open(&path).is_ok() {
        eprintln!("not tested: this user may read every file");
        return;
    }
    let gemm = format!("--device sim gemm --all --model {}", path.display());
    refused(command(&gemm), 6, &["model.gguf", "permission"]);
}

#[test]
fn auto_says_in_one_line_which_device_it_took() {
    let ran = panthorctl("info --json");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("panthorctl: using "),
        "{}",
        ran.stderr
    );
}
