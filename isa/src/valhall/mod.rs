//! Valhall v10 shader instructions.
