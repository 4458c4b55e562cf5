"""Programs that are run, not imported: commands, explorer, figures of the paper, studies, pages."""
