"""What the world answers: each module here implements ports and knows no other adapter."""
