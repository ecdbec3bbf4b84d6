"""The protocol's messages as protobuf classes. What is sent to an endpoint and what comes back is made of them
(`asking.py`, `answer.py`). They are those that our own doors for gRPC speak, built of the same file."""

from penstock.protos.messages import message

SERVICE = "inference.GRPCInferenceService"

ModelReadyRequest = message("inference.ModelReadyRequest")
ModelReadyResponse = message("inference.ModelReadyResponse")
ModelMetadataRequest = message("inference.ModelMetadataRequest")
ModelMetadataResponse = message("inference.ModelMetadataResponse")
ModelInferRequest = message("inference.ModelInferRequest")
ModelInferResponse = message("inference.ModelInferResponse")
