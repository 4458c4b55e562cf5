"""Pictures of laws, of statistics along depth and of audits by matplotlib, which see arrays and
laws, and no engine.
"""
