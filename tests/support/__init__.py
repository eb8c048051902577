"""What tests share: the contract that every store keeps."""
