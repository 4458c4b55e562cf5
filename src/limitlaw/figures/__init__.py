"""Pictures of laws, drawn with matplotlib; they see laws and arrays, no engine."""
