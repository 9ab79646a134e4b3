"""The judge: it holds a recorded call against the contract, the anomalies and the guarantees."""
