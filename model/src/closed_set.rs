//! Closed sets: enums with the same names in SQL, JSON, logs and metrics.

/// Declares `enum Name { Variant = "name", ... }` with `ALL`, `name`, `named`,
/// [`Display`](std::fmt::Display), serde, and a schema for the feature `openapi`.
macro_rules! closed_set {
    ($(#[$meta:meta])* $vis:vis enum $set:ident { $($(#[$value_meta:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $set {
            $($(#[$value_meta])* $value,)+
        }

        impl $set {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }

            /// `None` may mean a later version wrote it.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        #[cfg(feature = "clap")]
        impl clap::ValueEnum for $set {
            fn value_variants<'a>() -> &'a [Self] {
                &Self::ALL
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                Some(clap::builder::PossibleValue::new(self.name()))
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $set {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::Type::String)
                    .enum_values(Some([$($name),+]))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $set {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($set))
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $set {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                let names = &[$($name),+];
                Self::named(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, names))
            }
        }
    };
}
#[cfg(test)]
mod tests {
    closed_set! {
        enum End {
            Near = "near",
            FarAway = "far_away",
        }
    }

    #[test]
    fn each_value_has_the_same_name_everywhere() {
        for end in End::ALL {
            assert_eq!(End::named(end.name()), Some(end));
            assert_eq!(end.to_string(), end.name());
            let json = serde_json::to_string(&end).unwrap();
            assert_eq!(json, format!("\"{end}\""));
            assert_eq!(serde_json::from_str::<End>(&json).unwrap(), end);
        }
        assert_eq!(End::ALL, [End::Near, End::FarAway]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        assert_eq!(End::named("middle"), None);
        let error = serde_json::from_str::<End>("\"middle\"").unwrap_err().to_string();
        assert!(error.contains("middle") && error.contains("far_away"), "{error}");
    }
}
