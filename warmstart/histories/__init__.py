"""Operations on a history: add, import, list, collect, bundle, merge."""
