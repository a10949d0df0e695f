//! The function library. Its name carries a version: a node never replaces a library that an older node may call.

pub const NAME: &str = "weft2";
pub const CODE: &str = include_str!("weft.lua");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_small_and_named_by_its_version() {
        assert!(CODE.starts_with(&format!("#!lua name={NAME}\n")));
        assert!(CODE.lines().count() < 150, "{} lines", CODE.lines().count());
        let registered: Vec<_> = CODE.lines().filter(|line| line.starts_with("redis.register_function")).collect();
        assert!(registered.len() == 4 && registered.iter().all(|line| line.contains(&format!("'{NAME}_"))));
        for clock in ["'TIME'", "os.time", "os.clock", "math.random"] {
            assert!(!CODE.contains(clock), "{clock}");
        }
    }
}
