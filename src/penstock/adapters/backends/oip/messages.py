"""The protocol's messages as protobuf classes. What is sent to an endpoint and what comes back is made of them
(`asking.py`, `answer.py`, `backends/grpc.py`). They are built of the file that our own doors for gRPC speak by."""

from penstock.protos.messages import message

SERVICE = "inference.GRPCInferenceService"

ModelReadyRequest = message("inference.ModelReadyRequest")
ModelReadyResponse = message("inference.ModelReadyResponse")
ModelMetadataRequest = message("inference.ModelMetadataRequest")
ModelMetadataResponse = message("inference.ModelMetadataResponse")
ModelInferRequest = message("inference.ModelInferRequest")
ModelInferResponse = message("inference.ModelInferResponse")
