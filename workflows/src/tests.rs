//! Whatever arrives, no signal and no start can fail a task (rule 4).

use proptest::{collection::vec, prelude::*, sample::select};
use temporalio_common::{
    WorkflowDefinition,
    data_converters::{GenericPayloadConverter, PayloadConverter, SerializationContext, SerializationContextData},
    protos::temporal::api::common::v1::{Payload, Payloads},
};
use temporalio_workflow::__private::macros::WorkflowImplementation;

use crate::{Deliveries, Digest, Message, RetentionRun};

const ENCODINGS: [&str; 9] = [
    "",
    "json/plain",
    "json/protobuf",
    "binary/null",
    "binary/plain",
    "binary/protobuf",
    "binary/encrypted",
    "binary/zlib",
    "x",
];

fn payload() -> impl Strategy<Value = Payload> {
    let json = select(vec!["{}", "null", "\"\"", "[]", "[null]", "7", "{\"key\": {}}", "{\"events\": 1}", "NaN", "{"]);
    let data = prop_oneof![json.prop_map(|json| json.as_bytes().to_vec()), vec(any::<u8>(), 0..40)];
    (select(ENCODINGS.to_vec()), data).prop_map(|(encoding, data)| {
        let metadata = [("encoding".to_owned(), encoding.as_bytes().to_vec())].into();
        Payload { metadata, data, ..Payload::default() }
    })
}

/// For each signal of a workflow and for its start.
fn takes<W: WorkflowImplementation>(payloads: &[Payload]) -> Result<(), TestCaseError> {
    let (data, converter) = (SerializationContextData::None, PayloadConverter::default());
    for signal in W::definition().signals {
        let input = W::decode_signal_input(&signal, Payloads { payloads: payloads.to_vec() }, &converter);
        prop_assert!(matches!(input, Ok(Some(_))), "{} {}: {payloads:?}", W::name(), signal);
    }
    let context = SerializationContext::new(&data, &converter);
    let argument = converter.from_payloads::<<W::Run as WorkflowDefinition>::Input>(&context, payloads.to_vec());
    prop_assert!(argument.is_ok(), "{}: {payloads:?}", W::name());
    Ok(())
}

proptest! {
    #[test]
    fn every_signal_and_every_start_takes_any_payloads(payloads in vec(payload(), 0..3)) {
        takes::<Digest>(&payloads)?;
        takes::<Message>(&payloads)?;
        takes::<Deliveries>(&payloads)?;
        takes::<RetentionRun>(&payloads)?;
    }
}
