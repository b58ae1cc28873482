//! How much of what takes minutes is tried.

/// So many where all is tried, as by `make thorough`, else few.
pub fn of_many<T>(few: T, many: T) -> T {
    if std::env::var_os("TIERSCOPE_THOROUGH").is_some_and(|it| it == "1") { many } else { few }
}
