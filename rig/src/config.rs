//! Configurations: fragments (`rig/kernel/config/`) over `allnoconfig`.

use std::collections::BTreeMap;

use crate::cache::{Flavour, Variant};

const COMMON: &str = include_str!("../kernel/config/common");
const TIME_TRAVEL: &str = include_str!("../kernel/config/time-travel");
const SMP: &str = include_str!("../kernel/config/smp");
const FIXED_FP: &str = include_str!("../kernel/config/fixed-fp");
const DEBUG: &str = include_str!("../kernel/config/debug");
const GCOV: &str = include_str!("../kernel/config/gcov");

/// The options of all fragments of a variant, for a digest: whether a tree gets `fixed-fp` depends on the tree alone.
pub(crate) fn content(variant: Variant) -> impl Iterator<Item = String> {
    let own = match variant {
        Variant::Plain => "",
        Variant::Debug => DEBUG,
        Variant::Gcov => GCOV,
    };
    [COMMON, TIME_TRAVEL, SMP, FIXED_FP, own]
        .into_iter()
        .map(|fragment| {
            let options = options(fragment).map(|(name, value)| format!("{name}={value}\n"));
            options.collect()
        })
}

/// The file for `KCONFIG_ALLCONFIG`. A later fragment's line replaces an earlier one's.
pub fn all(variant: Variant, flavour: Flavour, fixed_fp: bool) -> String {
    let mut fragments = vec![COMMON];
    fragments.push(match flavour {
        Flavour::TimeTravel => TIME_TRAVEL,
        Flavour::Smp => SMP,
    });
    if fixed_fp {
        fragments.push(FIXED_FP);
    }
    match variant {
        Variant::Plain => {}
        Variant::Debug => fragments.push(DEBUG),
        Variant::Gcov => fragments.push(GCOV),
    }
    let options: BTreeMap<&str, &str> = fragments.iter().flat_map(|f| options(f)).collect();
    options
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect()
}

/// The options that a configuration sets.
pub(crate) fn options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .filter(|line| line.starts_with("CONFIG_"))
        .filter_map(|line| line.split_once('='))
}

/// Options without which a kernel is not what it was built for.
pub(crate) fn essential(variant: Variant, flavour: Flavour) -> Vec<&'static str> {
    let mut options = vec![
        "CONFIG_DRM_PANTHOR",
        "CONFIG_UML_MALI",
        "CONFIG_HOSTFS",
        "CONFIG_SYNC_FILE",
        "CONFIG_DEBUG_FS",
        "CONFIG_EVENT_TRACING",
    ];
    options.push(match flavour {
        Flavour::TimeTravel => "CONFIG_UML_TIME_TRAVEL_SUPPORT",
        Flavour::Smp => "CONFIG_SMP",
    });
    match variant {
        Variant::Plain => {}
        Variant::Debug => options.extend(["CONFIG_PROVE_LOCKING", "CONFIG_DEBUG_ATOMIC_SLEEP"]),
        Variant::Gcov => options.push("CONFIG_GCOV_KERNEL"),
    }
    options
}

/// Those of `wanted` that `config` (a `.config`) does not switch on.
pub(crate) fn missing<'a>(config: &str, wanted: &[&'a str]) -> Vec<&'a str> {
    let on: BTreeMap<&str, &str> = options(config).collect();
    wanted
        .iter()
        .copied()
        .filter(|name| on.get(name).is_none_or(|value| *value == "n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_each_option_once_and_that_of_its_flavour() {
        for variant in [Variant::Plain, Variant::Debug, Variant::Gcov] {
            for (flavour, has, has_not) in [
                (
                    Flavour::TimeTravel,
                    "CONFIG_UML_TIME_TRAVEL_SUPPORT=y",
                    "CONFIG_SMP=y",
                ),
                (
                    Flavour::Smp,
                    "CONFIG_SMP=y",
                    "CONFIG_UML_TIME_TRAVEL_SUPPORT=y",
                ),
            ] {
                let text = all(variant, flavour, false);
                let mut names: Vec<&str> = options(&text).map(|(name, _)| name).collect();
                let number = names.len();
                names.dedup();
                assert_eq!(names.len(), number);
                assert_eq!(text.lines().count(), number, "every line is an option");
                assert!(text.lines().any(|l| l == has) && !text.lines().any(|l| l == has_not));
            }
        }
    }

    #[test]
    fn options_that_were_not_granted_are_found() {
        let config = "CONFIG_HOSTFS=y\n# CONFIG_SMP is not set\nCONFIG_UML_MALI=n\n";
        assert_eq!(
            missing(config, &["CONFIG_HOSTFS", "CONFIG_SMP", "CONFIG_UML_MALI"]),
            ["CONFIG_SMP", "CONFIG_UML_MALI"]
        );
    }
}
