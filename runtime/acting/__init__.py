"""The replica that acts: onnxruntime, sampling and noise."""
