"""What a finished run says, as plain values and files; nothing here prints."""
