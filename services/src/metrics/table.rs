//! Declares tables of metrics, each with name, type and help in one place.

use prometheus_client::{encoding::text::encode, registry::Registry};

/// Declares a set of metrics, one per line: `name: Type, "help"`, or `name: Type = value, "help"` if the type
/// has no default. A unit after the help becomes part of the exported name.
#[macro_export]
macro_rules! metrics_table {
    (@new $type:ty) => { <$type>::default() };
    (@new $type:ty, $value:expr) => { $value };
    (@register $registry:ident, $metric:expr, $name:ident, $help:literal) => {
        $registry.register(stringify!($name), $help, $metric.clone())
    };
    (@register $registry:ident, $metric:expr, $name:ident, $help:literal, $unit:ident) => {
        let unit = prometheus_client::registry::Unit::$unit;
        $registry.register_with_unit(stringify!($name), $help, unit, $metric.clone())
    };
    ($(#[$meta:meta])* $vis:vis struct $set:ident {
        $($name:ident: $type:ty $(= $value:expr)?, $help:literal $(, $unit:ident)?;)+
    }) => {
        $(#[$meta])*
        $vis struct $set { $($name: $type,)+ }

        impl Default for $set {
            fn default() -> Self {
                Self { $($name: metrics_table!(@new $type $(, $value)?),)+ }
            }
        }

        impl $set {
            pub(super) fn register(&self, registry: &mut prometheus_client::registry::Registry) {
                $(metrics_table!(@register registry, self.$name, $name, $help $(, $unit)?);)+
            }
        }
    };
}

#[macro_export]
macro_rules! metric_labels {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($label:ident: $type:ty),+ })+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, prometheus_client::encoding::EncodeLabelSet)]
        $vis struct $name {
            $($vis $label: $type,)+
        }
    )+ };
}

pub fn encode_text(register: impl FnOnce(&mut Registry)) -> String {
    let mut registry = Registry::with_prefix("tidings");
    register(&mut registry);
    let mut text = String::new();
    let _ = encode(&mut text, &registry);
    text
}
