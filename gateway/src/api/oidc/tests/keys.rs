//! JWK sets, and the examples of the RFCs.

use super::{key::SignatureAlgorithm, *};

/// RFC 7515, appendix A.2 and A.3, and RFC 8037, appendix A.4.
#[test]
fn the_examples_of_the_standards_verify() {
    let rsa = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-\
               pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665\
               xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    for (algorithm, jwk, message, signature) in [
        (
            SignatureAlgorithm::Rs256,
            json!({"kty": "RSA", "kid": "1", "n": rsa, "e": "AQAB"}),
            format!("eyJhbGciOiJSUzI1NiJ9.{claims}"),
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7\
             t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzD\
             wusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        ),
        (
            SignatureAlgorithm::Es256,
            json!({"kty": "EC", "crv": "P-256", "kid": "1", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                   "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}),
            format!("eyJhbGciOiJFUzI1NiJ9.{claims}"),
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
        (
            SignatureAlgorithm::EdDsa,
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}),
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".to_owned(),
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        ),
    ] {
        let keys = key::parse_set(json!({"keys": [jwk]}).to_string().as_bytes()).unwrap();
        let signature = desk::bytes(signature);
        assert!(keys[0].verify_signature(algorithm, message.as_bytes(), &signature), "{message}");
        assert!(
            !keys[0].verify_signature(algorithm, message.replace("joe", "ann").as_bytes(), &signature[1..]),
            "{message}"
        );
        // As a token it has the wrong type.
        assert!(
            UnverifiedJwt::parse(&format!("{message}.{}", text(&signature)), TokenType::AccessToken)
                .is_err_and(|refused| refused == TokenError::Header)
        );
    }
}

#[test]
fn a_key_of_no_use_is_left_out_of_its_set() {
    let (rsa, p256) = (Pair::rsa().jwk("k1"), Pair::p256().jwk("k1"));
    let long = text(&[1; 1025]);
    let usable = |jwk: &Value| key::parse_set(json!({"keys": [jwk, 7, {}]}).to_string().as_bytes()).unwrap().len() == 1;
    for (jwk, edit, expected) in [
        (&rsa, json!({}), true),
        (&p256, json!({}), true),
        (&rsa, json!({"use": null, "alg": null}), true),
        (&rsa, json!({"n": text(&[&[0], &desk::bytes(rsa["n"].as_str().unwrap())[..]].concat())}), true),
        (&rsa, json!({"alg": "PS256"}), true),
        (&rsa, json!({"alg": "ES256"}), false),
        (&rsa, json!({"use": "enc"}), false),
        (&rsa, json!({"alg": "RS512"}), false),
        (&rsa, json!({"alg": "RSA-OAEP"}), false),
        (&rsa, json!({"kid": null}), false),
        (&rsa, json!({"e": null}), false),
        (&rsa, json!({"n": text(&[255; 128])}), false),
        (&rsa, json!({"n": long}), false),
        (&p256, json!({"crv": "P-384"}), false),
        (&p256, json!({"x": text(&[1; 31])}), false),
        (&p256, json!({"kty": "OKP"}), false),
        (&p256, json!({"kty": "oct", "k": "AAAA"}), false),
    ] {
        assert_eq!(usable(&edited(jwk.clone(), &edit)), expected, "{edit}");
    }
    let many: Vec<_> = (0..100).map(|n| edited(rsa.clone(), &json!({"kid": n.to_string()}))).collect();
    assert_eq!(key::parse_set(json!({"keys": many}).to_string().as_bytes()).unwrap().len(), 64);
    for wrong in ["", "[]", "{}", "{\"keys\": 7}"] {
        assert!(key::parse_set(wrong.as_bytes()).is_none(), "{wrong}");
    }
}
