"""What costs compute: target networks, collecting a history, training the meta-feature model."""
