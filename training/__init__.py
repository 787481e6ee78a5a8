"""Everything that costs compute: workloads, collection of a history, training of the meta-feature model, evaluation."""
