"""Programs that are run, not imported: commands, explorer, the paper's figures, studies, pages."""
