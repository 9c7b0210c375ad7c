//! `replay`: recorded jobs, and cases files that are none.

mod common;

use common::{command, golden, json, panthorctl, refused};
use serde_json::{Value, json as value};
use std::path::Path;

#[test]
fn the_recorded_jobs_are_all_right() {
    let report = json(&format!(
        "--device sim --json replay {}",
        golden("panvk/cases.json").display()
    ));
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 13);
    for row in rows {
        assert_eq!(row["ok"], true, "{row}");
        assert!(row["op"].as_str().is_some_and(|op| !op.is_empty()), "{row}");
        assert!(row["nmse"].as_f64().is_some_and(|e| e < 1e-3), "{row}");
    }
}

#[test]
fn one_case_is_chosen_by_its_number() {
    let cases = golden("panvk/cases.json").display().to_string();
    let ran = panthorctl(&format!("--device sim replay {cases} --case 0"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("mul_mat") && ran.stdout.contains("right"),
        "{}",
        ran.stdout
    );
    refused(
        command(&format!("--device sim replay {cases} --case 13")),
        2,
        &["no case 13", "has 13"],
    );
}

/// The first case's files in a folder, and the case, to be spoilt.
fn spoilt(folder: &Path, change: impl FnOnce(&mut Value)) -> String {
    let cases = std::fs::read(golden("panvk/cases.json")).expect("the golden cases");
    let cases: Value = serde_json::from_slice(&cases).expect("JSON");
    let mut case = cases[0].clone();
    for name in [
        "op000_ref.bin",
        "op000_src0.bin",
        "op000_src1.bin",
        "snap00013.bin",
        "snap00013.map",
    ] {
        let name = format!("{name}.xz");
        std::fs::copy(golden("panvk").join(&name), folder.join(&name)).expect("a copy");
    }
    change(&mut case);
    let path = folder.join("spoilt.json");
    std::fs::write(&path, value!([case]).to_string()).expect("a file");
    path.display().to_string()
}

#[test]
fn a_wrong_answer_exits_with_1() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("wrong.bin"), vec![0; 32768]).expect("a file");
    let path = spoilt(folder.path(), |case| case["ref"] = "wrong.bin".into());
    let ran = panthorctl(&format!("--device sim replay {path}"));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.contains("WRONG"), "{}", ran.stdout);
}

#[test]
fn spoilt_cases_are_bad_files() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 10] = [
        (|c| c["snapshot"] = "absent.bin".into(), "absent.bin"),
        (
            |c| c["snapshot"] = "../../../etc/passwd".into(),
            "must be the name of a file beside it",
        ),
        (
            |c| c["ref"] = "op000_src1.bin".into(),
            "but the output tensor has",
        ),
        (|c| c["tolerance"] = value!({"nmse": -1}), "tolerance"),
        (|c| c["tensors"] = value!([]), "no `dst` tensor"),
        (|c| c["streams"] = value!([]), "no stream"),
        (
            |c| c["streams"][0]["stream"] = "0xzz".into(),
            "is no number",
        ),
        (
            |c| c["streams"][0]["stream"] = "0xffffffffffffffc0".into(),
            "not mapped",
        ),
        (|c| c["streams"][0]["size"] = 7.into(), "whole instructions"),
        (
            |c| drop(c.as_object_mut().map(|c| c.remove("map"))),
            "no cases file",
        ),
    ];
    for (change, word) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = spoilt(folder.path(), change);
        refused(command(&format!("--device sim replay {path}")), 6, &[word]);
    }
}

#[test]
fn hostile_maps_and_images_are_bad_files() {
    let huge = r#"{"va":4096,"size":"0xffffffffffffe000","bo":1,"bo_off":0,"vmflags":0}"#;
    let flags = r#"{"va":4096,"size":4096,"bo":1,"bo_off":0,"vmflags":"0x80000000"}"#;
    let mut image = 0x1000_u64.to_le_bytes().to_vec();
    image.extend(u64::MAX.to_le_bytes());
    for (key, name, bytes, word) in [
        ("map", "huge.map", huge.as_bytes(), "within 48 bits"),
        ("map", "cut.map", b"{\"va\":", "line 1"),
        (
            "map",
            "flags.map",
            flags.as_bytes(),
            "no flags of a mapping",
        ),
        ("map", "binary.map", b"\xff\xfe\0", "not UTF-8"),
        ("snapshot", "huge.bin", &image, "truncated"),
        (
            "snapshot",
            "bad.bin.xz",
            b"\xfd7zXZ\0 and nothing more",
            "cannot be unpacked",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(name), bytes).expect("a file");
        let path = spoilt(folder.path(), |case| {
            case[key] = name.trim_end_matches(".xz").into()
        });
        refused(
            command(&format!("--device sim replay {path}")),
            6,
            &[name, word],
        );
    }
}

#[test]
fn what_is_no_cases_file_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cases.json");
    let deep = vec![b'['; 100_000];
    for bytes in [
        b"".as_slice(),
        b"[]",
        b"{}",
        b"[1]",
        b"[{\"op\":\"x\"",
        b"\0\xff",
        &deep,
    ] {
        std::fs::write(&path, bytes).expect("a file");
        refused(
            command(&format!("--device sim replay {}", path.display())),
            6,
            &["cases.json", "case"],
        );
    }
    refused(
        command("--device sim replay /nonexistent.json"),
        6,
        &["/nonexistent.json"],
    );
}

#[test]
fn a_fault_names_the_case_and_exits_with_5() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = spoilt(folder.path(), |case| case["scoreboard"] = 16.into());
    refused(
        command(&format!("--device sim replay {path}")),
        6,
        &["no scoreboard entry 16"],
    );
    // A Mali-G610 has eight scoreboard entries.
    let path = spoilt(folder.path(), |case| case["scoreboard"] = 9.into());
    refused(
        command(&format!("--device sim replay {path}")),
        5,
        &["mul_mat q4_0", "FATAL_FAULT"],
    );
}
