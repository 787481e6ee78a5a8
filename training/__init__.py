"""What costs compute: workloads, collecting a history, training the meta-feature model."""
