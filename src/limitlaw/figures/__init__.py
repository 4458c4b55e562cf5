"""Pictures and the report, drawn with matplotlib and plotly; they see laws and tables, no engine."""
