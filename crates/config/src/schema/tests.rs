//! What every part of the schema keeps.

use super::*;

/// Calls for every map with keys of its own, with the name of its definition.
fn sections(call: &mut dyn FnMut(&str, &Value)) {
    fn walk(owner: &str, schema: &Value, call: &mut dyn FnMut(&str, &Value)) {
        if schema.get("properties").is_some() {
            call(owner, schema);
        }
        for (_, property) in members(schema, "properties") {
            walk(owner, &property, call);
        }
        for form in forms(schema).iter().chain(schema.get("items")).chain(schema.get("additionalProperties"))
        {
            walk(owner, form, call);
        }
    }
    let schema = annotated();
    walk("the file", &schema, call);
    for (name, definition) in members(&schema, "$defs") {
        walk(&name, &definition, call);
    }
}

#[test]
fn every_section_refuses_unknown_keys() {
    let mut seen = 0;
    sections(&mut |owner, section| {
        seen += 1;
        if owner == "Plans" {
            // Names of plans, which are free, stand beside `claim`.
            return;
        }
        assert_eq!(section.get("additionalProperties"), Some(&Value::Bool(false)), "{owner}");
    });
    assert!(seen > 30, "{seen}");
}

#[test]
fn every_key_is_described_in_the_words_of_users() {
    sections(&mut |owner, section| {
        for (key, property) in members(section, "properties") {
            let text = property.get("description").and_then(Value::as_str);
            // The alternatives of a choice are described as a whole.
            let text =
                text.or_else(|| section.get("description").and_then(Value::as_str)).unwrap_or_default();
            assert!(text.len() > 3, "{owner}.{key} has no doc comment");
            assert!(!text.contains("[`") && !text.contains("Spec"), "{owner}.{key}: {text}");
        }
    });
}

/// A key without a default among its attributes would have none in the schema either.
#[test]
fn every_key_is_required_or_says_what_holds_without_it() {
    let mut silent = Vec::new();
    sections(&mut |owner, section| {
        let required = section.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for (key, property) in
            members(section, "properties").filter(|(key, _)| !required.contains(&key.as_str().into()))
        {
            let claims = claims::Claims::of(&property);
            let is_section = property.get("$ref").is_some() || has_type(&property, "object");
            if claims.default_text().is_none() && !is_section {
                silent.push(format!("{owner}.{key}"));
            }
        }
    });
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn keys_that_are_not_available_are_not_in_it() {
    assert!(!document().contains("\"http3\""));
}

#[test]
fn every_filter_and_balancer_is_in_it() {
    let schema = value();
    let filters = schema["$defs"]["Filter"].to_string();
    for filter in thalweg_filter::ALL {
        assert!(filters.contains(&format!("\"{}\"", filter.name)), "{}", filter.name);
    }
    let balancers = format!("{}{}", schema["$defs"]["BalancerName"], schema["$defs"]["KeyedBalancerName"]);
    for balancer in thalweg_balance::BALANCERS {
        assert!(balancers.contains(&format!("\"{}\"", balancer.name)), "{}", balancer.name);
    }
}

#[test]
fn the_reference_has_a_row_for_each_key() {
    let page = keys();
    for key in [
        "`listeners.<name>.address`",
        "`routes[].to[].service`",
        "`services.<name>.retry.hedge.after`",
        "`workers`",
    ] {
        assert_eq!(page.matches(&format!("| {key} |")).count(), 1, "{key}:\n{page}");
    }
    assert!(page.contains("| `services.<name>.breaker.trials` | whole number | `3` | 1–1000 |"), "{page}");
}
